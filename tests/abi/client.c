/* A host that is compiled against an older header (TENON_FROZEN) and uses the current library: every function and structure of
 * that header works as before, and nothing is written behind a structure as the host knows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include TENON_FROZEN

static int failures = 0;

static void check_at(int line, int good, const char* what) {
  if (good) return;
  ++failures;
  printf("tests/abi/client.c:%d: %s; last error: %s\n", line, what, tenon_last_error());
}
#define CHECK(condition) check_at(__LINE__, (condition) != 0, #condition)
#define OK(call) check_at(__LINE__, (call) == TENON_OK, #call)

/* A structure and guard bytes behind it. */
#define GUARDED(type, name)      \
  struct {                       \
    type value;                  \
    unsigned char behind[64];    \
  } name;                        \
  memset(&name, 0, sizeof name); \
  memset(name.behind, 0xAB, 64); \
  name.value.struct_size = sizeof(type)
static int untouched(const unsigned char* behind) {
  int i;
  for (i = 0; i < 64; ++i)
    if (behind[i] != 0xAB) return 0;
  return 1;
}

static _Atomic int logged = 0, blocks = 0; /* Tenon logs and allocates on any thread */
static int loops = 0, answers = 0;
static void on_log(void* user, const char* topic, const char* message) {
  *(_Atomic int*)user += *topic != 0 && message != NULL;
}
static void on_loop(void* user, int64_t n, int32_t most, tenon_range_fn fn, void* arg) {
  ++*(int*)user;
  fn(arg, most - 1, n / 2, n);
  fn(arg, 0, 0, n / 2);
}
static void* on_alloc(void* user, size_t bytes, size_t alignment) {
  ++*(_Atomic int*)user;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void on_free(void* user, void* block, size_t bytes) {
  (void)bytes;
  --*(_Atomic int*)user;
  free(block);
}
static void on_answer(void* user, tenon_value node, const char* name, const char* op, const char* backend,
                      const char* why) {
  *(int*)user += node != TENON_NO_VALUE && name && *op && *backend && *why;
}

static tenon_tensor tensor(void* data, int32_t ndim, int64_t* shape) {
  tenon_tensor t;
  tenon_dtype f32 = {2, 32, 1};
  memset(&t, 0, sizeof t);
  t.data = data, t.device.type = 1, t.ndim = ndim, t.dtype = f32, t.shape = shape;
  return t;
}

/* y = softmax(x w + c) over columns, w frozen, x column by column. */
static tenon_graph* build(void) {
  tenon_graph* graph = NULL;
  tenon_value x, w, c, ids[2], v;
  tenon_dtype f32 = {2, 32, 1};
  float ones[3] = {1, 1, 1};
  int64_t three[1] = {3};
  tenon_tensor constant = tensor(ones, 1, three);
  GUARDED(tenon_input_options, column);
  GUARDED(tenon_input_options, param);
  column.value.strides = "1,N";
  param.value.param = 1;
  OK(tenon_graph_create("old", &graph));
  OK(tenon_graph_add_input(graph, "x", f32, "N,3", &column.value, &x));
  OK(tenon_graph_add_input(graph, "w", f32, "3,3", &param.value, &w));
  OK(tenon_graph_add_constant(graph, "c", &constant, &c));
  ids[0] = x, ids[1] = w;
  OK(tenon_graph_add_node(graph, "matmul", ids, 2, NULL, "m", &v));
  ids[0] = v, ids[1] = c;
  OK(tenon_graph_add_node(graph, "add", ids, 2, NULL, NULL, &v));
  OK(tenon_graph_add_node(graph, "softmax", &v, 1, "axis=0", "y", &v));
  OK(tenon_graph_set_outputs(graph, &v, 1, NULL));
  OK(tenon_graph_finalize(graph));
  return graph;
}

static void graphs(tenon_graph* graph) {
  char text[1024];
  size_t length = 0;
  tenon_graph* again = NULL;
  tenon_device cpu = {1, 0};
  OK(tenon_graph_print(graph, text, sizeof text, &length));
  CHECK(length == strlen(text) && strstr(text, "graph @old(%x: f32[N,3] strides=[1,N], %w: f32[3,3] param"));
  OK(tenon_graph_parse(text, TENON_NTS, &again));
  OK(tenon_graph_query(again, cpu, on_answer, &answers));
  CHECK(answers == 3);
  tenon_graph_retain(again);
  tenon_graph_release(again);
  tenon_graph_release(again);
  CHECK(tenon_graph_parse("graph", TENON_NTS, &again) == TENON_INVALID && *tenon_last_error());
  tenon_clear_error();
  CHECK(!*tenon_last_error() && !strcmp(tenon_status_name(TENON_UNSUPPORTED), "unsupported"));
}

static void ops(void) {
  size_t n = tenon_op_count();
  GUARDED(tenon_op_info, info);
  GUARDED(tenon_op_desc, desc);
  OK(tenon_op_describe("softmax", &info.value));
  CHECK(!strcmp(info.value.name, "softmax") && !strcmp(info.value.kind, "composite") &&
        info.value.arity == 1);
  CHECK(strstr(info.value.attrs, "axis:int") && *info.value.doc && info.value.optional == 0);
  OK(tenon_op_describe("exp", &info.value));
  CHECK(info.value.ulp > 0 && info.value.ulp < 10 && untouched(info.behind));
  desc.value.name = "twice", desc.value.arity = 1, desc.value.doc = "2 x";
  desc.value.body = "graph @b(%x: f32[N]) {\n  %y = add(%x, %x)\n  return %y\n}\n";
  OK(tenon_op_register(&desc.value));
  CHECK(tenon_op_count() == n + 1 && !strcmp(tenon_op_name(n), "twice") && untouched(desc.behind));
}

static void programs(tenon_graph* graph) {
  float x[6] = {1, 2, 3, 1, 2, 3}, w[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, y[6] = {0};
  int64_t two[2] = {2, 3}, square[2] = {3, 3}, columns[2] = {1, 2};
  tenon_tensor tx = tensor(x, 2, two), tw = tensor(w, 2, square), ty = tensor(y, 2, two);
  const tenon_tensor *params[2], *in[2], *out[1];
  tenon_context* context = NULL;
  tenon_program* program = NULL;
  const char* text = NULL;
  size_t length = 0;
  GUARDED(tenon_context_options, host);
  GUARDED(tenon_program_options, options);
  GUARDED(tenon_program_stats, stats);
  params[0] = NULL, params[1] = &tw, in[0] = &tx, in[1] = NULL, out[0] = &ty;
  tx.strides = columns;
  host.value.log = on_log, host.value.log_user = &logged;
  host.value.parallel_for = on_loop, host.value.parallel_user = &loops, host.value.num_threads = 2;
  host.value.alloc = on_alloc, host.value.free = on_free, host.value.allocator_user = &blocks;
  OK(tenon_context_create(&host.value, &context));
  options.value.freeze = 1, options.value.num_threads = 1, options.value.context = context;
  options.value.max_plans = 7, options.value.max_plan_bytes = 1 << 20;
  OK(tenon_program_create(graph, &options.value, params, 2, &program));
  tenon_context_retain(context);
  tenon_context_release(context);
  OK(tenon_program_run(program, in, 2, out, 1));
  /* Rows 1,3,2 and 2,1,3: elements that differ by d have results of ratio e^d. */
  CHECK(y[0] > 0.2689f && y[0] < 0.2690f && y[3] > 0.7310f && y[3] < 0.7311f);
  CHECK(y[1] > 0.8807f && y[1] < 0.8809f && y[4] > 0.1191f && y[4] < 0.1193f);
  w[0] = 0;
  OK(tenon_program_update_params(program, params, 2));
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(y[0] > 0.4999f && y[0] < 0.5001f);
  OK(tenon_program_set_limits(program, 1, 0));
  OK(tenon_program_get_stats(program, &stats.value));
  CHECK(stats.value.struct_size == sizeof(tenon_program_stats) && untouched(stats.behind));
  CHECK(stats.value.nodes >= 2 && stats.value.steps > 0 && stats.value.kernels > 0 && stats.value.plans == 1);
  CHECK(stats.value.plan_misses == 1 && stats.value.plan_hits == 0 && stats.value.plan_evictions == 0);
  CHECK(stats.value.compile_ms > 0 && stats.value.plan_ms > 0 && stats.value.plan_bytes > 0);
  OK(tenon_program_explain(program, 0, &text, &length));
  CHECK(length == strlen(text) && strstr(text, "matmul"));
  tenon_program_retain(program);
  tenon_program_release(program);
  tenon_program_release(program);
  tenon_context_release(context);
  CHECK(blocks == 0 && logged > 0 && untouched(host.behind) && untouched(options.behind));
}

static void cache(void) {
  GUARDED(tenon_cache_stats, stats);
  OK(tenon_cache_get_stats(&stats.value));
  CHECK(!*stats.value.directory && strstr(stats.value.off, "TENON_CACHE=off") && untouched(stats.behind));
}

int main(void) {
  tenon_graph* graph;
  setvbuf(stdout, NULL, _IONBF, 0); /* so that failures are printed even if the next call crashes */
  graph = build();
  CHECK(tenon_version() >> 16 == TENON_VERSION_MAJOR && (tenon_version() & 0xffff) >= TENON_VERSION_MINOR);
  CHECK(*tenon_version_string() && strstr(tenon_build_info(), tenon_version_string()));
  graphs(graph), ops(), programs(graph), cache();
  tenon_graph_release(graph);
  printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
