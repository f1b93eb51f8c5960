// Controllers: objects of the cluster as JSON. What the cluster refuses is the error of a reconcile, which is retried.
#pragma once

#include "json.h"

typedef pilothouse_host_cluster_group_version_resource_t ph_resource;
typedef pilothouse_host_cluster_object_t ph_object;

// Text that lives as long as the plugin.
static inline plugin_string_t ph_constant(const char *text) {
  return (plugin_string_t){(uint8_t *)text, strlen(text)};
}

static inline ph_resource ph_resource_of(const char *group, const char *version, const char *plural) {
  return (ph_resource){ph_constant(group), ph_constant(version), ph_constant(plural)};
}

// The error for what the cluster refused, which is freed. Returns false, as a failing function does.
static inline bool ph_failed(pilothouse_host_cluster_status_t *refusal, plugin_string_t *error) {
  ph_text text = {0};
  ph_text_add_string(&text, refusal->reason);
  ph_text_add_c(&text, ": ");
  ph_text_add_string(&text, refusal->message);
  *error = ph_text_string(text);
  pilothouse_host_cluster_status_free(refusal);
  return false;
}

// An object, to be freed with `pilothouse_host_cluster_object_free`; one that is not there is empty. False: an error.
static inline bool ph_get(ph_resource of, plugin_string_t space, plugin_string_t name, ph_object *object,
                          plugin_string_t *error) {
  pilothouse_host_cluster_status_t refusal;
  *object = (ph_object){NULL, 0};
  if (pilothouse_host_cluster_get(&of, &space, &name, object, &refusal)) return true;
  if (refusal.code != 404) return ph_failed(&refusal, error);
  pilothouse_host_cluster_status_free(&refusal);
  *object = (ph_object){NULL, 0};
  return true;
}

// Creates the object of a text, which is freed. False: an error.
static inline bool ph_create(ph_resource of, plugin_string_t space, ph_text text, plugin_string_t *error) {
  pilothouse_host_cluster_status_t refusal;
  ph_object given = {(uint8_t *)text.ptr, text.len}, created;
  bool done = pilothouse_host_cluster_create(&of, &space, &given, &created, &refusal);
  free(text.ptr);
  if (!done) return ph_failed(&refusal, error);
  pilothouse_host_cluster_object_free(&created);
  return true;
}
