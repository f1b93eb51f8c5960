"""A scheduler score: pods go where the energy is green, which nodes say in the label renewable-percent."""

from pilothouse.scheduler import Plugin, component


class Score(Plugin):
    manifest = {
        "name": "plugin-name",
        "scheduler": {"interfaces": ["score"], "needs": ["labels"], "weight": 2},
    }

    def filters(self, pod):
        return False

    def score(self, pod, node):
        text = node.labels.get("renewable-percent", "")
        return min(int(text), 100) if text.isascii() and text.isdigit() and len(text) < 9 else 0


Manifest, Nodes, Cycle, _, Score = component(Score())
