// An admission plugin: every new ConfigMap has the label "team".

import { get as config } from "pilothouse:host/config@0.1.0";
import { Patch, forbidden, metadataOf, objectOf } from "./build/sdk/admission.js";

const rules = [{ operations: ["CREATE"], apiGroups: [""], apiVersions: ["*"], resources: ["configmaps"] }];

export const manifest = {
  describe: () => JSON.stringify({ plugins: [{ name: "js-team-label", admission: { rules } }] }),
};

export const mutate = {
  /** Adds the configured default, if there is one: {"defaultTeam": "payments"}. */
  mutate(_plugin, request) {
    const team = JSON.parse(config()).defaultTeam;
    const labels = metadataOf(objectOf(request)).labels;
    const patch = new Patch();
    if (team && !labels) patch.add(["metadata", "labels"], { team });
    else if (team && !Object.hasOwn(labels, "team")) patch.add(["metadata", "labels", "team"], team);
    return { jsonPatch: patch.toString(), warnings: [] };
  },
};

export const validate = {
  validate(_plugin, request) {
    const labels = metadataOf(objectOf(request)).labels ?? {};
    if (!Object.hasOwn(labels, "team")) {
      throw forbidden(request, 'the label "team" is missing; add it, for example team=payments');
    }
    return { warnings: [] };
  },
};
