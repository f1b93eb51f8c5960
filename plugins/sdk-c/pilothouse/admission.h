// Admission plugins: reading the request and refusing it.
#pragma once

#include "json.h"

typedef pilothouse_admission_types_request_t ph_request;
typedef pilothouse_admission_types_denial_t ph_denial;

// A refusal; `message` is the whole message for the user and goes with it. Returns false, as a refusing function does.
static inline bool ph_deny(ph_denial *denial, uint16_t code, const char *reason, plugin_string_t message) {
  memset(denial, 0, sizeof *denial);
  denial->code = code;
  plugin_string_dup(&denial->reason, reason);
  denial->message = message;
  return false;
}

// A 403 in Kubernetes' form, `pods "web" is forbidden: <why>`.
static inline bool ph_forbidden(ph_denial *denial, const ph_request *request, const char *why) {
  ph_text message = {0};
  ph_text_add_string(&message, request->resource.resource);
  if (request->resource.group.len > 0) {
    ph_text_add_c(&message, ".");
    ph_text_add_string(&message, request->resource.group);
  }
  ph_text_add_c(&message, " \"");
  if (request->name.len > 0) {
    ph_text_add_string(&message, request->name);
  } else {
    ph_text_add_c(&message, "Unknown");
  }
  ph_text_add_c(&message, "\" is forbidden: ");
  ph_text_add_c(&message, why);
  return ph_deny(denial, 403, "Forbidden", ph_text_string(message));
}

static inline bool ph_bad_request(ph_denial *denial, const char *why) {
  plugin_string_t message;
  plugin_string_dup(&message, why);
  return ph_deny(denial, 400, "BadRequest", message);
}

// `metadata` of the new object; refuses a request that has none.
static inline bool ph_metadata(const ph_request *request, ph_json *metadata, ph_denial *denial) {
  if (!request->object.is_some) return ph_bad_request(denial, "the request has no object");
  ph_json object = ph_json_parse(request->object.val.ptr, request->object.val.len);
  *metadata = ph_json_member(object, "metadata");
  return ph_json_kind(*metadata) == '{' || ph_bad_request(denial, "the object has no metadata");
}
