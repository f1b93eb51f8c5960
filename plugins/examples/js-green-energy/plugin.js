// A scheduler filter and score: pods with the label energy=green go only where half of the energy or more is renewable, as nodes
// say in the label renewable-percent, and every pod goes where there is most of it.

import { PASS, Plugin, component, unresolvable } from "./build/sdk/scheduler.js";

/** The label `renewable-percent`, 0 to 100; 0 if it is missing or no number. */
function percent(node) {
  const text = node.labels.get("renewable-percent") ?? "";
  return /^[0-9]{1,8}$/.test(text) ? Math.min(Number(text), 100) : 0;
}

class GreenEnergy extends Plugin {
  manifest = {
    name: "js-green-energy",
    scheduler: { interfaces: ["filter", "score"], needs: ["labels"], events: ["node-add", "node-update-labels"] },
  };

  begin(pod) {
    return new Map(pod.labels).get("energy") === "green";
  }

  filters(greenOnly) {
    return greenOnly;
  }

  filter(greenOnly, node) {
    return percent(node) >= 50 ? PASS : unresolvable();
  }

  reason() {
    return "node(s) had too little renewable energy";
  }

  score(_greenOnly, node) {
    return percent(node);
  }
}

export const { manifest, nodes, cycle, filter, score } = component(new GreenEnergy());
