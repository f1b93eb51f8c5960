"""Scheduler plugins: subclass Plugin, and export what `component` makes of it.

The mirror of the nodes and the books of cycles are kept here, so that a plugin sees one node at a time."""

import copy
import json

from componentize_py_types import Err, Ok
from wit_world.imports.types import Refusal, RefusalKind

PASS = 0
_UNKNOWN = 3


def unschedulable(reason: int = 0) -> int:
    """A node is refused; evicting pods may help. `reason` is a number below 2**30 for `reasons`."""
    return reason << 2 | 1


def unresolvable(reason: int = 0) -> int:
    """A node is refused, and evicting pods cannot help."""
    return reason << 2 | 2


class Plugin:
    """One scheduler plugin. `manifest` is its entry, as wit/README.md describes it."""

    manifest: dict = {}

    def begin(self, pod):
        """What the other calls of this pod's cycle get as `state`. Raise `refused(…)` if no node can do."""
        return pod

    def filters(self, state) -> bool:
        """Whether `filter` has anything to say about this pod."""
        return True

    def scores(self, state) -> bool:
        """Whether `score` has."""
        return True

    def filter(self, state, node) -> int:
        """`PASS`, `unschedulable(…)` or `unresolvable(…)`, by this node alone."""
        return PASS

    def reason(self, state, word: int) -> str:
        """The text for what `filter` answered: "node(s) were …"."""
        return f"node(s) were refused by {self.manifest['name']}"

    def score(self, state, node) -> int:
        """0 to 100, the higher the better, unless the manifest asks for normalisation."""
        return 0

    def add_pod(self, state, node, pod):
        """A pod that `filter` shall see on a node, where an eviction is tried; `state` may be changed."""

    def remove_pod(self, state, node, pod):
        """The same for one that it shall not see any more."""


def refused(*reasons: str) -> Err:
    """To be raised by `begin`: no node can do, and evicting pods cannot help."""
    return Err(Refusal(RefusalKind.UNRESOLVABLE, list(reasons)))


def component(*plugins: Plugin):
    """The classes to export: `Manifest, Nodes, Cycle, Filter, Score = component(Mine())`. What the world does not export
    is not called. With `pods` among its needs, a plugin finds the pods of a node in its attribute `pods`, by uid."""
    from wit_world.exports import cycle

    nodes, states = {}, {}

    class Manifest:
        def describe(self):
            return json.dumps({"plugins": [plugin.manifest for plugin in plugins]})

    class Nodes:
        def apply(self, epoch, upserts, removed, pods):
            for index in removed:
                nodes.pop(index, None)
            for node in upserts:
                known = nodes.get(node.index)
                node.labels = dict(node.labels)
                node.pods = known.pods if known else {}
                nodes[node.index] = node
            for change in pods:
                on = nodes[change.node].pods if change.node in nodes else {}
                if change.added:
                    on[change.pod.uid] = change.pod
                else:
                    on.pop(change.pod.uid, None)

    def begin(number, index, pod):
        plugin = plugins[index]
        try:
            state = plugin.begin(pod)
        except Err as refusal:
            return refusal
        states[number][index] = state
        return Ok(cycle.Outcome(plugin.filters(state), plugin.scores(state), None))

    class Cycle:
        def begin(self, cycle, plugins, pod):
            states[cycle] = {}
            return [begin(cycle, index, pod) for index in plugins]

        def clone(self, cycle, copy_):
            states[copy_] = copy.deepcopy(states.get(cycle, {}))

        def add_pod(self, cycle, node, pod):
            for index, state in states.get(cycle, {}).items():
                if node in nodes:
                    plugins[index].add_pod(state, nodes[node], pod)

        def remove_pod(self, cycle, node, pod):
            for index, state in states.get(cycle, {}).items():
                if node in nodes:
                    plugins[index].remove_pod(state, nodes[node], pod)

        def end(self, cycle):
            states.pop(cycle, None)

    def judge(call, otherwise, cycle, index, wanted):
        # A cycle or node that is not known is no reason to trap.
        if index not in states.get(cycle, {}):
            return [otherwise] * len(wanted)
        state = states[cycle][index]
        return [call(state, nodes[node]) if node in nodes else otherwise for node in wanted]

    class Filter:
        def filter(self, plugin, cycle, wanted):
            return judge(plugins[plugin].filter, _UNKNOWN, cycle, plugin, wanted)

        def reasons(self, plugin, cycle, words):
            state = states.get(cycle, {}).get(plugin)
            reason = plugins[plugin].reason
            return [["not known here" if word == _UNKNOWN else reason(state, word)] for word in words]

    class Score:
        def score(self, plugin, cycle, wanted):
            return judge(plugins[plugin].score, 0, cycle, plugin, wanted)

    return Manifest, Nodes, Cycle, Filter, Score
