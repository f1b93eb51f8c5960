// A scheduler filter: no new pods on nodes with the label quarantine=true.

#define PH_FILTER
#include <pilothouse/scheduler.h>

static const char *ph_manifest(void) {
  return "{\"plugins\": [{\"name\": \"plugin-name\", \"scheduler\": {\"interfaces\": [\"filter\"], \"needs\": [\"labels\"],"
         " \"events\": [\"node-add\", \"node-update-labels\"]}}]}";
}

static uint64_t ph_begin(const ph_pod *pod, bool *filters, bool *scores) {
  (void)pod, (void)filters;
  *scores = false;
  return 0;
}

static uint32_t ph_filter(uint64_t state, const ph_node *node) {
  (void)state;
  const plugin_string_t *quarantine = ph_label(&node->labels, "quarantine");
  return quarantine && ph_string_is(*quarantine, "true") ? ph_unresolvable(0) : PH_PASS;
}

static const char *ph_reason(uint64_t state, uint32_t word) {
  (void)state, (void)word;
  return "node(s) were in quarantine";
}
