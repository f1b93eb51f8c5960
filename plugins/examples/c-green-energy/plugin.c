// A scheduler filter and score: pods with the label energy=green go only where half of the energy or more is renewable, as
// nodes say in the label renewable-percent, and every pod goes where there is most of it.

#define PH_FILTER
#define PH_SCORE
#include <pilothouse/scheduler.h>

static const char *ph_manifest(void) {
  return "{\"plugins\": [{\"name\": \"c-green-energy\", \"scheduler\": {\"interfaces\": [\"filter\", \"score\"],"
         " \"needs\": [\"labels\"], \"events\": [\"node-add\", \"node-update-labels\"]}}]}";
}

// The state is whether the pod is particular about its energy.
static uint64_t ph_begin(const ph_pod *pod, bool *filters, bool *scores) {
  (void)scores;
  const plugin_string_t *energy = ph_label(&pod->labels, "energy");
  *filters = energy && ph_string_is(*energy, "green");
  return *filters;
}

// The label renewable-percent, 0 to 100; 0 if it is missing or no number.
static int64_t percent(const ph_node *node) {
  const plugin_string_t *text = ph_label(&node->labels, "renewable-percent");
  int64_t value = 0;
  for (size_t i = 0; text && i < text->len; i++) {
    if (text->ptr[i] < '0' || text->ptr[i] > '9' || text->len > 8) return 0;
    value = 10 * value + (text->ptr[i] - '0');
  }
  return value > 100 ? 100 : value;
}

static uint32_t ph_filter(uint64_t green_only, const ph_node *node) {
  return !green_only || percent(node) >= 50 ? PH_PASS : ph_unresolvable(0);
}

static const char *ph_reason(uint64_t green_only, uint32_t word) {
  (void)green_only, (void)word;
  return "node(s) had too little renewable energy";
}

static int64_t ph_score(uint64_t green_only, const ph_node *node) {
  (void)green_only;
  return percent(node);
}
