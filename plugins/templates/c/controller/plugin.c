// A controller: every namespace with the label welcome=true has a ConfigMap "welcome".

#include <pilothouse/controller.h>

void exports_pilothouse_host_manifest_describe(plugin_string_t *ret) {
  plugin_string_dup(ret,
                    "{\"plugins\": [{\"name\": \"plugin-name\", \"capabilities\": ["
                    "{\"apiGroups\": [\"\"], \"resources\": [\"namespaces\"], \"verbs\": [\"get\", \"list\", \"watch\"]},"
                    "{\"apiGroups\": [\"\"], \"resources\": [\"configmaps\"], \"verbs\": [\"get\", \"list\", \"watch\","
                    " \"create\"]}], \"controller\": {\"watches\": ["
                    "{\"version\": \"v1\", \"resource\": \"namespaces\", \"map\": \"self\"},"
                    "{\"version\": \"v1\", \"resource\": \"configmaps\", \"map\": \"namespace\"}]}}]}");
}

static bool welcome(plugin_string_t space, plugin_string_t *error) {
  ph_object found;
  if (!ph_get(ph_resource_of("", "v1", "configmaps"), space, ph_constant("welcome"), &found, error)) return false;
  bool there = found.len > 0;
  pilothouse_host_cluster_object_free(&found);
  if (there) return true;
  ph_text map = {0};
  ph_text_add_c(&map, "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"welcome\"},"
                      " \"data\": {\"text\": \"welcome to ");
  ph_text_add_string(&map, space);  // the name of a namespace has no characters to escape
  ph_text_add_c(&map, "\"}}");
  return ph_create(ph_resource_of("", "v1", "configmaps"), space, map, error);
}

static bool reconcile(plugin_string_t name, plugin_string_t *error) {
  ph_object space;
  if (!ph_get(ph_resource_of("", "v1", "namespaces"), ph_constant(""), name, &space, error)) return false;
  ph_json metadata = ph_json_member(ph_json_parse(space.ptr, space.len), "metadata");
  bool wanted = ph_json_is(ph_json_member(ph_json_member(metadata, "labels"), "welcome"), "true") &&
                !ph_json_kind(ph_json_member(metadata, "deletionTimestamp"));
  pilothouse_host_cluster_object_free(&space);
  return !wanted || welcome(name, error);
}

bool exports_pilothouse_controller_reconcile_reconcile(uint32_t plugin,
                                                       exports_pilothouse_controller_reconcile_key_t *key,
                                                       exports_pilothouse_controller_reconcile_outcome_t *ret,
                                                       plugin_string_t *err) {
  (void)plugin;
  bool done = reconcile(key->name, err);
  ret->tag = EXPORTS_PILOTHOUSE_CONTROLLER_RECONCILE_OUTCOME_DONE;
  exports_pilothouse_controller_reconcile_key_free(key);
  return done;
}
