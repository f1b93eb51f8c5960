"""An admission plugin: every new ConfigMap has the label "team"."""

import json

from pilothouse.admission import Patch, forbidden, metadata_of, object_of
from pilothouse.config import config
from wit_world import exports
from wit_world.exports.mutate import Mutation
from wit_world.exports.validate import Approval

RULES = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}]


class Manifest(exports.Manifest):
    def describe(self):
        return json.dumps({"plugins": [{"name": "python-team-label", "admission": {"rules": RULES}}]})


class Mutate(exports.Mutate):
    def mutate(self, plugin, request):
        """Adds the configured default, if there is one: {"defaultTeam": "payments"}."""
        team = config().get("defaultTeam")
        labels = metadata_of(object_of(request)).get("labels")
        patch = Patch()
        if team and labels is None:
            patch.add(["metadata", "labels"], {"team": team})
        elif team and "team" not in labels:
            patch.add(["metadata", "labels", "team"], team)
        return Mutation(str(patch), [])


class Validate(exports.Validate):
    def validate(self, plugin, request):
        labels = metadata_of(object_of(request)).get("labels") or {}
        if "team" not in labels:
            raise forbidden(request, 'the label "team" is missing; add it, for example team=payments')
        return Approval([])
