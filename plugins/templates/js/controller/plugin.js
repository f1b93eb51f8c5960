// A controller: every namespace with the label welcome=true has a ConfigMap "welcome".

import { create, get } from "./build/sdk/controller.js";

const namespaces = { group: "", version: "v1", resource: "namespaces" };
const configMaps = { group: "", version: "v1", resource: "configmaps" };

const plugin = {
  name: "plugin-name",
  capabilities: [
    { apiGroups: [""], resources: ["namespaces"], verbs: ["get", "list", "watch"] },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch", "create"] },
  ],
  controller: {
    watches: [
      { version: "v1", resource: "namespaces", map: "self" },
      { version: "v1", resource: "configmaps", map: "namespace" },
    ],
  },
};

export const manifest = { describe: () => JSON.stringify({ plugins: [plugin] }) };

export const reconcile = {
  reconcile(_plugin, key) {
    const metadata = get(namespaces, "", key.name)?.metadata;
    const wanted = metadata?.labels?.welcome === "true" && !metadata.deletionTimestamp;
    if (wanted && !get(configMaps, key.name, "welcome")) {
      create(configMaps, key.name, {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "welcome" },
        data: { text: `welcome to ${key.name}` },
      });
    }
    return { tag: "done" };
  },
};
