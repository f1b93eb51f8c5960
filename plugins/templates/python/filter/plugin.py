"""A scheduler filter: no new pods on nodes with the label quarantine=true."""

from pilothouse.scheduler import PASS, Plugin, component, unresolvable


class Filter(Plugin):
    manifest = {
        "name": "plugin-name",
        "scheduler": {
            "interfaces": ["filter"],
            "needs": ["labels"],
            "events": ["node-add", "node-update-labels"],
        },
    }

    def filter(self, pod, node):
        return unresolvable() if node.labels.get("quarantine") == "true" else PASS

    def reason(self, pod, word):
        return "node(s) were in quarantine"

    def scores(self, pod):
        return False


Manifest, Nodes, Cycle, Filter, _ = component(Filter())
