// Reading JSON where it lies, and building text. Reading allocates nothing and does not recurse; it takes the document for
// well-formed, as the host checks it, and finds nothing in one that is not.
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

// One value of a document, from its first character to behind its last; `at` is NULL for a value that is not there.
typedef struct {
  const char *at, *end;
} ph_json;

static inline const char *ph_json_space(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

// Behind the string that begins at `at`; NULL if it does not end.
static inline const char *ph_json_string_end(const char *at, const char *end) {
  for (at++; at < end; at++) {
    if (*at == '"') return at + 1;
    if (*at == '\\') at++;
  }
  return NULL;
}

// The value that begins at or after `at`.
static inline ph_json ph_json_value(const char *at, const char *end) {
  const ph_json none = {NULL, NULL};
  size_t depth = 0;
  at = ph_json_space(at, end);
  const char *start = at;
  do {
    at = ph_json_space(at, end);
    if (at >= end) return none;
    switch (*at) {
      case '"':
        at = ph_json_string_end(at, end);
        if (!at) return none;
        break;
      case '{':
      case '[':
        depth++, at++;
        break;
      case '}':
      case ']':
        if (depth == 0) return none;
        depth--, at++;
        break;
      case ',':
      case ':':
        if (depth == 0) return none;
        at++;
        break;
      default:  // a number or a word
        do at++;
        while (at < end && *at && !strchr(",:]}[{\" \t\r\n", *at));
    }
  } while (depth > 0);
  return (ph_json){start, at};
}

static inline ph_json ph_json_parse(const uint8_t *bytes, size_t length) {
  return ph_json_value((const char *)bytes, (const char *)bytes + length);
}

// '{', '[', '"', 't', 'f', 'n', a digit or '-'; 0 if it is not there.
static inline char ph_json_kind(ph_json value) { return value.at ? *value.at : 0; }

// The member of this name, which is compared as it is written: names with escapes are not found.
static inline ph_json ph_json_member(ph_json object, const char *name) {
  const ph_json none = {NULL, NULL};
  if (ph_json_kind(object) != '{') return none;
  size_t length = strlen(name);
  const char *at = object.at + 1;
  for (;;) {
    ph_json key = ph_json_value(at, object.end);
    if (ph_json_kind(key) != '"') return none;
    at = ph_json_space(key.end, object.end);
    if (at >= object.end || *at != ':') return none;
    ph_json value = ph_json_value(at + 1, object.end);
    if (!value.at) return none;
    if ((size_t)(key.end - key.at) == length + 2 && memcmp(key.at + 1, name, length) == 0) return value;
    at = ph_json_space(value.end, object.end);
    if (at >= object.end || *at != ',') return none;
    at++;
  }
}

// Whether it is this string, which has no characters to escape.
static inline bool ph_json_is(ph_json value, const char *text) {
  size_t length = strlen(text);
  return ph_json_kind(value) == '"' && (size_t)(value.end - value.at) == length + 2 &&
         memcmp(value.at + 1, text, length) == 0;
}

static inline bool ph_string_is(plugin_string_t string, const char *text) {
  return string.len == strlen(text) && memcmp(string.ptr, text, string.len) == 0;
}

// Text under construction; its memory goes to whom it is given.
typedef struct {
  char *ptr;
  size_t len, capacity;
} ph_text;

static inline void ph_text_add(ph_text *text, const void *bytes, size_t length) {
  if (text->len + length > text->capacity) {
    text->capacity = 2 * text->capacity + length + 64;
    text->ptr = realloc(text->ptr, text->capacity);
    if (!text->ptr) abort();
  }
  if (length > 0) memcpy(text->ptr + text->len, bytes, length);
  text->len += length;
}

static inline void ph_text_add_string(ph_text *text, plugin_string_t string) {
  ph_text_add(text, string.ptr, string.len);
}

static inline void ph_text_add_c(ph_text *text, const char *c) { ph_text_add(text, c, strlen(c)); }

// A value as it is written.
static inline void ph_text_add_json(ph_text *text, ph_json value) {
  ph_text_add(text, value.at, (size_t)(value.end - value.at));
}

static inline plugin_string_t ph_text_string(ph_text text) {
  return (plugin_string_t){(uint8_t *)text.ptr, text.len};
}
