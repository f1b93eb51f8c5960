// An admission plugin: every new ConfigMap has the label "team".

#include <pilothouse/admission.h>

void exports_pilothouse_host_manifest_describe(plugin_string_t *ret) {
  plugin_string_dup(ret,
                    "{\"plugins\": [{\"name\": \"c-team-label\", \"admission\": {\"rules\": [{\"operations\": [\"CREATE\"],"
                    " \"apiGroups\": [\"\"], \"apiVersions\": [\"*\"], \"resources\": [\"configmaps\"]}]}}]}");
}

// Adds the configured default, if there is one: {"defaultTeam": "payments"}.
static bool mutate(ph_request *request, exports_pilothouse_admission_mutate_mutation_t *mutation, ph_denial *denial) {
  ph_json metadata;
  if (!ph_metadata(request, &metadata, denial)) return false;
  plugin_string_t config;
  pilothouse_host_config_get(&config);
  ph_json team = ph_json_member(ph_json_parse(config.ptr, config.len), "defaultTeam");
  ph_json labels = ph_json_member(metadata, "labels");
  bool labelled = ph_json_kind(labels) == '{';
  ph_text patch = {0};
  if (ph_json_kind(team) == '"' && !labelled) {
    ph_text_add_c(&patch, "[{\"op\": \"add\", \"path\": \"/metadata/labels\", \"value\": {\"team\": ");
    ph_text_add_json(&patch, team);
    ph_text_add_c(&patch, "}}]");
  } else if (ph_json_kind(team) == '"' && !ph_json_kind(ph_json_member(labels, "team"))) {
    ph_text_add_c(&patch, "[{\"op\": \"add\", \"path\": \"/metadata/labels/team\", \"value\": ");
    ph_text_add_json(&patch, team);
    ph_text_add_c(&patch, "}]");
  }
  mutation->json_patch = ph_text_string(patch);
  mutation->warnings.len = 0;
  plugin_string_free(&config);
  return true;
}

static bool validate(ph_request *request, exports_pilothouse_admission_validate_approval_t *approval, ph_denial *denial) {
  ph_json metadata;
  if (!ph_metadata(request, &metadata, denial)) return false;
  if (!ph_json_kind(ph_json_member(ph_json_member(metadata, "labels"), "team"))) {
    return ph_forbidden(denial, request, "the label \"team\" is missing; add it, for example team=payments");
  }
  approval->warnings.len = 0;
  return true;
}

bool exports_pilothouse_admission_mutate_mutate(uint32_t plugin, ph_request *request,
                                                exports_pilothouse_admission_mutate_mutation_t *ret, ph_denial *err) {
  (void)plugin;
  bool done = mutate(request, ret, err);
  pilothouse_admission_types_request_free(request);
  return done;
}

bool exports_pilothouse_admission_validate_validate(uint32_t plugin, ph_request *request,
                                                    exports_pilothouse_admission_validate_approval_t *ret, ph_denial *err) {
  (void)plugin;
  bool done = validate(request, ret, err);
  pilothouse_admission_types_request_free(request);
  return done;
}
