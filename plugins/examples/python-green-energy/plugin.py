"""A scheduler filter and score: pods with the label energy=green go only where half of the energy or more is renewable, as nodes
say in the label renewable-percent, and every pod goes where there is most of it."""

from pilothouse.scheduler import PASS, Plugin, component, unresolvable


def percent(node) -> int:
    """The label `renewable-percent`, 0 to 100; 0 if it is missing or no number."""
    text = node.labels.get("renewable-percent", "")
    return min(int(text), 100) if text.isascii() and text.isdigit() and len(text) < 9 else 0


class GreenEnergy(Plugin):
    manifest = {
        "name": "python-green-energy",
        "scheduler": {
            "interfaces": ["filter", "score"],
            "needs": ["labels"],
            "events": ["node-add", "node-update-labels"],
        },
    }

    def begin(self, pod):
        return dict(pod.labels).get("energy") == "green"

    def filters(self, green_only):
        return green_only

    def filter(self, green_only, node):
        return PASS if percent(node) >= 50 else unresolvable()

    def reason(self, green_only, word):
        return "node(s) had too little renewable energy"

    def score(self, green_only, node):
        return percent(node)


Manifest, Nodes, Cycle, Filter, Score = component(GreenEnergy())
