// Controllers: objects as values. What the cluster refuses is thrown as the error of a reconcile, which is retried.

import * as cluster from "pilothouse:host/cluster@0.1.0";
import { bytesOf, parse } from "./json.js";

/** Undefined if it is not there. */
export function get(of, namespace, name) {
  try {
    return parse(cluster.get(of, namespace, name));
  } catch (refusal) {
    if (status(refusal)?.code === 404) return undefined;
    throw failed(refusal);
  }
}

/** Selectors in Kubernetes' syntax; an empty namespace means all. */
export function listAll(of, namespace = "", labels = "", fields = "") {
  return asked(() => cluster.list(of, namespace, labels, fields)).map(parse);
}

/** The created object. */
export function create(of, namespace, value) {
  return parse(asked(() => cluster.create(of, namespace, bytesOf(value))));
}

/** The updated object; refused with Conflict if the given one is stale. */
export function update(of, namespace, value) {
  return parse(asked(() => cluster.update(of, namespace, value.metadata.name, bytesOf(value))));
}

/** To be thrown by `reconcile`: what the cluster refused. */
export function failed(refusal) {
  const { reason, message } = status(refusal) ?? { reason: "Error", message: String(refusal) };
  return `${reason}: ${message}`;
}

/** The `status` that a refused call threw, in itself or as the payload of an error. */
function status(refusal) {
  return refusal?.payload ?? (refusal?.code ? refusal : undefined);
}

function asked(call) {
  try {
    return call();
  } catch (refusal) {
    throw failed(refusal);
  }
}
