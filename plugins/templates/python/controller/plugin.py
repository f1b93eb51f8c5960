"""A controller: every namespace with the label welcome=true has a ConfigMap "welcome"."""

import json

from pilothouse.controller import create, get
from wit_world import exports
from wit_world.exports.reconcile import Outcome_Done
from wit_world.imports.cluster import GroupVersionResource

NAMESPACES = GroupVersionResource("", "v1", "namespaces")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


class Manifest(exports.Manifest):
    def describe(self):
        plugin = {
            "name": "plugin-name",
            "capabilities": [
                {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create"]},
            ],
            "controller": {
                "watches": [
                    {"version": "v1", "resource": "namespaces", "map": "self"},
                    {"version": "v1", "resource": "configmaps", "map": "namespace"},
                ],
            },
        }
        return json.dumps({"plugins": [plugin]})


class Reconcile(exports.Reconcile):
    def reconcile(self, plugin, key):
        namespace = get(NAMESPACES, "", key.name)
        metadata = namespace["metadata"] if namespace else {"deletionTimestamp": "gone"}
        wanted = (metadata.get("labels") or {}).get("welcome") == "true" and "deletionTimestamp" not in metadata
        if wanted and get(CONFIG_MAPS, key.name, "welcome") is None:
            create(CONFIG_MAPS, key.name, {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "welcome"},
                "data": {"text": f"welcome to {key.name}"},
            })
        return Outcome_Done()
