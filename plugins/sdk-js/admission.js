// Admission plugins: reading the request, refusing it, patching its object.

import { parse } from "./json.js";

/** The new object. A request without one, or with one that is no JSON object, is refused with 400. */
export function objectOf(request) {
  let value;
  try {
    value = parse(request.object);
  } catch (error) {
    throw badRequest(`cannot read the object: ${error.message}`);
  }
  if (!isMap(value)) throw badRequest("the object is no JSON object");
  return value;
}

/** `metadata` of an object, whose `labels` and `annotations` are maps if they are there. */
export function metadataOf(object) {
  const metadata = object.metadata;
  if (!isMap(metadata)) throw badRequest("the object has no metadata");
  for (const name of ["labels", "annotations"]) {
    if (!isMap(metadata[name] ?? {})) throw badRequest(`metadata.${name} is no map`);
  }
  return metadata;
}

/** To be thrown: a refusal with an HTTP code of 400 or more and the whole message for the user. */
export function denied(code, reason, message) {
  return { code, reason, message, about: undefined, causes: [], retryAfterSeconds: 0 };
}

/** To be thrown: a 403 in Kubernetes' form, `pods "web" is forbidden: <why>`. */
export function forbidden(request, why) {
  const { group, resource } = request.resource;
  const qualified = group ? `${resource}.${group}` : resource;
  return denied(403, "Forbidden", `${qualified} "${request.name || "Unknown"}" is forbidden: ${why}`);
}

/** To be thrown: a 400. */
export function badRequest(message) {
  return denied(400, "BadRequest", message);
}

/** A JSON patch (RFC 6902) under construction. Paths are given as unescaped segments. */
export class Patch {
  #operations = [];

  /** Adds a member, replacing it if present, or inserts into a list; the segment `-` appends. */
  add(path, value) {
    return this.#push({ op: "add", path: pointer(path), value });
  }

  /** Removes an existing value. */
  remove(path) {
    return this.#push({ op: "remove", path: pointer(path) });
  }

  /** Its JSON form, empty if it changes nothing. */
  toString() {
    return this.#operations.length ? JSON.stringify(this.#operations) : "";
  }

  #push(operation) {
    this.#operations.push(operation);
    return this;
  }
}

function pointer(path) {
  return path.map((segment) => "/" + segment.replaceAll("~", "~0").replaceAll("/", "~1")).join("");
}

function isMap(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
