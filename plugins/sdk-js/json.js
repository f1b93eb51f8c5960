// JSON as bytes. The engine that plugins are built with has neither TextDecoder nor TextEncoder.

// The engine's reader recurses on the sandbox's small stack: what is deeper is refused before it is read.
const DEEPEST = 200;

/** The value of a JSON document in UTF-8; an error if it is none or nested deeper than 200. */
export function parse(bytes) {
  const text = decode(bytes);
  if (isDeep(text)) throw new RangeError("the document is nested too deeply");
  return JSON.parse(text);
}

/** A value as a JSON document in UTF-8. */
export function bytesOf(value) {
  const text = unescape(encodeURIComponent(JSON.stringify(value)));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function decode(bytes) {
  let text = "";
  for (let from = 0; from < bytes.length; from += 4096) {
    text += String.fromCharCode.apply(null, bytes.subarray(from, from + 4096));
  }
  return /[\x80-\xff]/.test(text) ? decodeURIComponent(escape(text)) : text;
}

/** Whether it is nested deeper than `DEEPEST`. Few documents have so many brackets at all, and `indexOf` is quick. */
function isDeep(text) {
  if (!hasMore(text, "[", DEEPEST / 2) && !hasMore(text, "{", DEEPEST / 2)) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === "[" || character === "{") depth++;
    else if (character === "]" || character === "}") depth--;
    if (depth > DEEPEST) return true;
  }
  return false;
}

function hasMore(text, character, most) {
  let at = -1;
  for (let count = 0; count <= most; count++) {
    at = text.indexOf(character, at + 1);
    if (at < 0) return false;
  }
  return true;
}

/** Where the string that begins at `at` ends. */
function endOfString(text, at) {
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let escapes = 0;
    while (text[at - 1 - escapes] === "\\") escapes++;
    if (escapes % 2 === 0) return at;
  }
}
