// A scheduler plugin: define PH_FILTER, PH_SCORE or both as the world exports them, include this, and write the functions
// below. The mirror of the nodes and the books of cycles are kept here, so that a plugin sees one node at a time.
#pragma once

#include "json.h"

typedef pilothouse_scheduler_types_node_t ph_node;
typedef pilothouse_scheduler_types_pod_t ph_pod;

enum { PH_PASS = 0 };
// A node is refused, for a reason below 2^30; evicting pods may help, or cannot help.
static inline uint32_t ph_unschedulable(uint32_t reason) { return reason << 2 | 1; }
static inline uint32_t ph_unresolvable(uint32_t reason) { return reason << 2 | 2; }

// What the plugin is: the JSON of its manifest, as wit/README.md describes it.
static const char *ph_manifest(void);
// What the calls of this pod's cycle get as `state`. Either wish may be set to false.
static uint64_t ph_begin(const ph_pod *pod, bool *filters, bool *scores);
#ifdef PH_FILTER
// PH_PASS or a refusal, by this node alone, and the text for it: "node(s) were …".
static uint32_t ph_filter(uint64_t state, const ph_node *node);
static const char *ph_reason(uint64_t state, uint32_t word);
#endif
#ifdef PH_SCORE
// 0 to 100, the higher the better, unless the manifest asks for normalisation.
static int64_t ph_score(uint64_t state, const ph_node *node);
#endif

// The value of a label; NULL if there is none.
static inline const plugin_string_t *ph_label(const plugin_list_tuple2_string_string_t *labels, const char *key) {
  for (size_t i = 0; i < labels->len; i++) {
    if (ph_string_is(labels->ptr[i].f0, key)) return &labels->ptr[i].f1;
  }
  return NULL;
}

static inline void *ph_allocate(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) abort();
  return memory;
}

// The mirror, sorted by index.
static struct {
  ph_node *ptr;
  size_t len, capacity;
} ph_nodes;

// Where the node of this index is, or would be.
static size_t ph_position(uint32_t index) {
  size_t low = 0, high = ph_nodes.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ph_nodes.ptr[middle].index < index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static ph_node *ph_find(uint32_t index) {
  size_t at = ph_position(index);
  return at < ph_nodes.len && ph_nodes.ptr[at].index == index ? &ph_nodes.ptr[at] : NULL;
}

static void ph_put(ph_node node) {
  ph_node *known = ph_find(node.index);
  if (known) {
    pilothouse_scheduler_types_node_free(known);
    *known = node;
    return;
  }
  if (ph_nodes.len == ph_nodes.capacity) {
    ph_nodes.capacity = 2 * ph_nodes.capacity + 64;
    ph_nodes.ptr = realloc(ph_nodes.ptr, ph_nodes.capacity * sizeof(ph_node));
    if (!ph_nodes.ptr) abort();
  }
  size_t at = ph_position(node.index);
  memmove(ph_nodes.ptr + at + 1, ph_nodes.ptr + at, (ph_nodes.len - at) * sizeof(ph_node));
  ph_nodes.ptr[at] = node;
  ph_nodes.len++;
}

static void ph_remove(uint32_t index) {
  ph_node *known = ph_find(index);
  if (!known) return;
  pilothouse_scheduler_types_node_free(known);
  size_t at = (size_t)(known - ph_nodes.ptr);
  ph_nodes.len--;
  memmove(known, known + 1, (ph_nodes.len - at) * sizeof(ph_node));
}

// The cycles under way; there are few.
static struct {
  struct ph_cycle {
    uint64_t number, state;
  } *ptr;
  size_t len, capacity;
} ph_cycles;

static struct ph_cycle *ph_cycle_of(uint64_t number) {
  for (size_t i = 0; i < ph_cycles.len; i++) {
    if (ph_cycles.ptr[i].number == number) return &ph_cycles.ptr[i];
  }
  return NULL;
}

static void ph_cycle_put(uint64_t number, uint64_t state) {
  struct ph_cycle *known = ph_cycle_of(number);
  if (known) {
    known->state = state;
    return;
  }
  if (ph_cycles.len == ph_cycles.capacity) {
    ph_cycles.capacity = 2 * ph_cycles.capacity + 8;
    ph_cycles.ptr = realloc(ph_cycles.ptr, ph_cycles.capacity * sizeof(struct ph_cycle));
    if (!ph_cycles.ptr) abort();
  }
  ph_cycles.ptr[ph_cycles.len++] = (struct ph_cycle){number, state};
}

void exports_pilothouse_host_manifest_describe(plugin_string_t *ret) { plugin_string_dup(ret, ph_manifest()); }

void exports_pilothouse_scheduler_nodes_apply(uint64_t epoch, exports_pilothouse_scheduler_nodes_list_node_t *upserts,
                                              plugin_list_u32_t *removed,
                                              exports_pilothouse_scheduler_nodes_list_pod_change_t *pods) {
  (void)epoch;
  for (size_t i = 0; i < removed->len; i++) ph_remove(removed->ptr[i]);
  for (size_t i = 0; i < upserts->len; i++) ph_put(upserts->ptr[i]);
  if (upserts->len > 0) free(upserts->ptr);  // the nodes themselves are in the mirror now
  plugin_list_u32_free(removed);
  exports_pilothouse_scheduler_nodes_list_pod_change_free(pods);
}

void exports_pilothouse_scheduler_cycle_begin(uint64_t cycle, plugin_list_u32_t *plugins, ph_pod *pod,
                                              exports_pilothouse_scheduler_cycle_list_result_outcome_refusal_t *ret) {
  ret->len = plugins->len;
  ret->ptr = ph_allocate(ret->len, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) {
    bool filters = true, scores = true;
    ph_cycle_put(cycle, ph_begin(pod, &filters, &scores));
    ret->ptr[i].val.ok.filter = filters;
    ret->ptr[i].val.ok.score = scores;
  }
  plugin_list_u32_free(plugins);
  pilothouse_scheduler_types_pod_free(pod);
}

void exports_pilothouse_scheduler_cycle_clone(uint64_t cycle, uint64_t copy) {
  struct ph_cycle *known = ph_cycle_of(cycle);
  if (known) ph_cycle_put(copy, known->state);
}

void exports_pilothouse_scheduler_cycle_add_pod(uint64_t cycle, uint32_t node,
                                                exports_pilothouse_scheduler_cycle_assigned_pod_t *pod) {
  (void)cycle, (void)node;
  pilothouse_scheduler_types_assigned_pod_free(pod);
}

void exports_pilothouse_scheduler_cycle_remove_pod(uint64_t cycle, uint32_t node,
                                                   exports_pilothouse_scheduler_cycle_assigned_pod_t *pod) {
  (void)cycle, (void)node;
  pilothouse_scheduler_types_assigned_pod_free(pod);
}

void exports_pilothouse_scheduler_cycle_end(uint64_t cycle) {
  struct ph_cycle *known = ph_cycle_of(cycle);
  if (known) *known = ph_cycles.ptr[--ph_cycles.len];
}

// A cycle or node that is not known is no reason to trap: the host is told that it could not be judged.
#ifdef PH_FILTER
enum { PH_UNKNOWN = 3 };

void exports_pilothouse_scheduler_filter_filter(uint32_t plugin, uint64_t cycle, plugin_list_u32_t *nodes,
                                                plugin_list_u32_t *ret) {
  (void)plugin;
  struct ph_cycle *known = ph_cycle_of(cycle);
  ret->len = nodes->len;
  ret->ptr = ph_allocate(ret->len, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) {
    ph_node *node = ph_find(nodes->ptr[i]);
    ret->ptr[i] = known && node ? ph_filter(known->state, node) : PH_UNKNOWN;
  }
  plugin_list_u32_free(nodes);
}

void exports_pilothouse_scheduler_filter_reasons(uint32_t plugin, uint64_t cycle, plugin_list_u32_t *words,
                                                 plugin_list_list_string_t *ret) {
  (void)plugin;
  struct ph_cycle *known = ph_cycle_of(cycle);
  ret->len = words->len;
  ret->ptr = ph_allocate(ret->len, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) {
    bool judged = known && words->ptr[i] != PH_UNKNOWN;
    ret->ptr[i].len = 1;
    ret->ptr[i].ptr = ph_allocate(1, sizeof(plugin_string_t));
    plugin_string_dup(ret->ptr[i].ptr, judged ? ph_reason(known->state, words->ptr[i]) : "not known here");
  }
  plugin_list_u32_free(words);
}
#endif

#ifdef PH_SCORE
void exports_pilothouse_scheduler_score_score(uint32_t plugin, uint64_t cycle, plugin_list_u32_t *nodes,
                                              plugin_list_s64_t *ret) {
  (void)plugin;
  struct ph_cycle *known = ph_cycle_of(cycle);
  ret->len = nodes->len;
  ret->ptr = ph_allocate(ret->len, sizeof *ret->ptr);
  for (size_t i = 0; i < ret->len; i++) {
    ph_node *node = ph_find(nodes->ptr[i]);
    ret->ptr[i] = known && node ? ph_score(known->state, node) : 0;
  }
  plugin_list_u32_free(nodes);
}
#endif
