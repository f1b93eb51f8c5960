// A scheduler score: pods go where the energy is green, which nodes say in the label renewable-percent.

#define PH_SCORE
#include <pilothouse/scheduler.h>

static const char *ph_manifest(void) {
  return "{\"plugins\": [{\"name\": \"plugin-name\", \"scheduler\": {\"interfaces\": [\"score\"], \"needs\": [\"labels\"],"
         " \"weight\": 2}}]}";
}

static uint64_t ph_begin(const ph_pod *pod, bool *filters, bool *scores) {
  (void)pod, (void)scores;
  *filters = false;
  return 0;
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

static int64_t ph_score(uint64_t state, const ph_node *node) {
  (void)state;
  return percent(node);
}
