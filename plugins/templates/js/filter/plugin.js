// A scheduler filter: no new pods on nodes with the label quarantine=true.

import { PASS, Plugin, component, unresolvable } from "./build/sdk/scheduler.js";

class Filter extends Plugin {
  manifest = {
    name: "plugin-name",
    scheduler: { interfaces: ["filter"], needs: ["labels"], events: ["node-add", "node-update-labels"] },
  };

  filter(_pod, node) {
    return node.labels.get("quarantine") === "true" ? unresolvable() : PASS;
  }

  reason() {
    return "node(s) were in quarantine";
  }

  scores() {
    return false;
  }
}

export const { manifest, nodes, cycle, filter } = component(new Filter());
