// Scheduler plugins: extend Plugin, and export what `component` makes of it. The mirror of the nodes and the books of cycles
// are kept here, so that a plugin sees one node at a time.

export const PASS = 0;

/** A node is refused; evicting pods may help. `reason` is a number below 2**30 for `reason`. */
export const unschedulable = (reason = 0) => ((reason << 2) | 1) >>> 0;

/** A node is refused, and evicting pods cannot help. */
export const unresolvable = (reason = 0) => ((reason << 2) | 2) >>> 0;

const UNKNOWN = 3;

/** Thrown by `begin`: no node can do, and evicting pods cannot help. */
export class Refused extends Error {
  constructor(...reasons) {
    super(reasons.join(", "));
    this.reasons = reasons;
  }
}

/** One scheduler plugin. `manifest` is its entry, as wit/README.md describes it. */
export class Plugin {
  manifest = {};

  /** What the other calls of this pod's cycle get as `state`. */
  begin(pod) {
    return pod;
  }

  /** Whether `filter` has anything to say about this pod. */
  filters(state) {
    return true;
  }

  /** Whether `score` has. */
  scores(state) {
    return true;
  }

  /** `PASS`, `unschedulable(…)` or `unresolvable(…)`, by this node alone. */
  filter(state, node) {
    return PASS;
  }

  /** The text for what `filter` answered: "node(s) were …". */
  reason(state, word) {
    return `node(s) were refused by ${this.manifest.name}`;
  }

  /** 0 to 100, the higher the better, unless the manifest asks for normalisation. */
  score(state, node) {
    return 0;
  }

  /** `state` for the trial of an eviction, if `addPod` and `removePod` change it. */
  clone(state) {
    return state;
  }

  /** A pod that `filter` shall see on a node, where an eviction is tried. */
  addPod(state, node, pod) {}

  /** The same for one that it shall not see any more. */
  removePod(state, node, pod) {}
}

/**
 * What to export: `export const { manifest, nodes, cycle, filter, score } = component(new Mine())`. What the world does not
 * export is not called. `node.labels` is a Map; with `pods` among its needs a plugin finds a node's pods in the Map `node.pods`.
 */
export function component(...plugins) {
  const mirror = new Map();
  const cycles = new Map();

  function begin(number, index, pod) {
    const plugin = plugins[index];
    let state;
    try {
      state = plugin.begin(pod);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { tag: "err", val: { kind: "unresolvable", reasons: error.reasons } };
    }
    cycles.get(number).set(index, state);
    return { tag: "ok", val: { filter: plugin.filters(state), score: plugin.scores(state), nodes: undefined } };
  }

  function changePod(number, node, pod, method) {
    for (const [index, state] of cycles.get(number) ?? []) {
      if (mirror.has(node)) plugins[index][method](state, mirror.get(node), pod);
    }
  }

  function judging(plugin, number) {
    const states = cycles.get(number);
    const known = states?.has(plugin);
    return (call, index) => {
      const node = mirror.get(index);
      return known && node ? call(plugins[plugin], states.get(plugin), node) : undefined;
    };
  }

  return {
    manifest: {
      describe: () => JSON.stringify({ plugins: plugins.map((plugin) => plugin.manifest) }),
    },
    nodes: {
      apply(_epoch, upserts, removed, pods) {
        for (const index of removed) mirror.delete(index);
        for (const node of upserts) {
          node.labels = new Map(node.labels);
          node.pods = mirror.get(node.index)?.pods ?? new Map();
          mirror.set(node.index, node);
        }
        for (const { node, added, pod } of pods) {
          const on = mirror.get(node)?.pods;
          if (added) on?.set(pod.uid, pod);
          else on?.delete(pod.uid);
        }
      },
    },
    cycle: {
      begin(number, wanted, pod) {
        cycles.set(number, new Map());
        return Array.from(wanted, (index) => begin(number, index, pod));
      },
      clone(number, copy) {
        const states = Array.from(cycles.get(number) ?? [], ([index, state]) => [index, plugins[index].clone(state)]);
        cycles.set(copy, new Map(states));
      },
      addPod: (number, node, pod) => changePod(number, node, pod, "addPod"),
      removePod: (number, node, pod) => changePod(number, node, pod, "removePod"),
      end: (number) => void cycles.delete(number),
    },
    // A cycle or node that is not known is no reason to trap: the host is told that it could not be judged.
    filter: {
      filter(plugin, number, wanted) {
        const judge = judging(plugin, number);
        return Array.from(wanted, (index) => judge((one, state, node) => one.filter(state, node), index) ?? UNKNOWN);
      },
      reasons(plugin, number, words) {
        const state = cycles.get(number)?.get(plugin);
        return Array.from(words, (word) => [word === UNKNOWN ? "not known here" : plugins[plugin].reason(state, word)]);
      },
    },
    score: {
      score(plugin, number, wanted) {
        const judge = judging(plugin, number);
        return Array.from(wanted, (index) => judge((one, state, node) => one.score(state, node), index) ?? 0);
      },
    },
  };
}
