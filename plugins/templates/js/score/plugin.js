// A scheduler score: pods go where the energy is green, which nodes say in the label renewable-percent.

import { Plugin, component } from "./build/sdk/scheduler.js";

class Score extends Plugin {
  manifest = {
    name: "plugin-name",
    scheduler: { interfaces: ["score"], needs: ["labels"], weight: 2 },
  };

  filters() {
    return false;
  }

  score(_pod, node) {
    const text = node.labels.get("renewable-percent") ?? "";
    return /^[0-9]{1,8}$/.test(text) ? Math.min(Number(text), 100) : 0;
  }
}

export const { manifest, nodes, cycle, score } = component(new Score());
