/* Programs, tensors and contexts: what works, and refusals of every kind of wrong tensor, with the outputs unchanged. */
#include "capi.h"

/* ---- what works ---- */

void run_and_stats(void) {
  float x[12], w[4] = {1, 2, 3, 4}, y[12];
  int64_t sx[2] = {3, 4}, sw[1] = {4}, sy[2] = {3, 4};
  tenon_tensor tx = tensor(x, f32, 2, sx), tw = tensor(w, f32, 1, sw), ty = tensor(y, f32, 2, sy);
  const tenon_tensor *in[2], *out[1];
  tenon_program* program = compile(kScale);
  tenon_program_stats stats;
  const char* text = NULL;
  size_t length = 0, i, rows;
  in[0] = &tx, in[1] = &tw, out[0] = &ty;
  for (i = 0; i < 12; ++i) x[i] = (float)i;
  for (rows = 3; rows-- > 0;) { /* includes 0 rows */
    sx[0] = sy[0] = (int64_t)rows;
    memset(y, 0, sizeof y);
    OK(tenon_program_run(program, in, 2, out, 1));
    for (i = 0; i < 12; ++i) CHECK(y[i] == (i < 4 * rows ? x[i] * w[i % 4] + x[i] : 0));
  }
  OK(tenon_program_run(program, in, 2, out, 1));
  stats.struct_size = sizeof stats;
  OK(tenon_program_get_stats(program, &stats));
  CHECK(stats.nodes == 2 && stats.nodes_fused == 2 && stats.kernels == 1 && stats.steps == 1 &&
        stats.plans == 3);
  CHECK(stats.plan_hits == 1 && stats.compile_ms > 0);
  OK(tenon_program_explain(program, 0, &text, &length));
  CHECK(strlen(text) == length && strstr(text, "mul") && strstr(text, "kernel @"));
  OK(tenon_program_explain(program, 1, &text, &length));
  CHECK(text[0] == '{' && text[length - 1] == '}' && strstr(text, "\"workspace_bytes\""));
  tenon_program_retain(program);
  tenon_program_release(program);
  /* byte_offset moves the data pointer. */
  tx.byte_offset = 16, sx[0] = sy[0] = 1;
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(y[1] == x[5] * 2 + x[5]);
  tenon_program_release(program);
  tenon_program_release(NULL), tenon_graph_release(NULL), tenon_context_release(NULL);
  tenon_program_retain(NULL), tenon_graph_retain(NULL), tenon_context_retain(NULL);
}

typedef struct observed {
  int begun, ended;
  char name[100];
} observed;
static void step_begins(void* user, const char* name) {
  observed* o = user;
  CHECK(o->begun == o->ended && strlen(name) < sizeof o->name);
  strcpy(o->name, name);
  ++o->begun;
}
static void step_ends(void* user) { ++((observed*)user)->ended; }

void observers(void) {
  float x[8] = {0}, w[4] = {0}, y[8];
  int64_t sx[2] = {2, 4}, sw[1] = {4};
  tenon_tensor tx = tensor(x, f32, 2, sx), tw = tensor(w, f32, 1, sw), ty = tensor(y, f32, 2, sx);
  const tenon_tensor *in[2], *out[1];
  observed first = {0}, second = {0};
  tenon_program* program = compile(kScale);
  in[0] = &tx, in[1] = &tw, out[0] = &ty;
  INVALID(tenon_observe_steps(step_begins, NULL, &first), "tenon_observe_steps|NULL");
  INVALID(tenon_observe_steps(NULL, step_ends, &first), "tenon_observe_steps|NULL");
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(first.begun == 0);
  OK(tenon_observe_steps(step_begins, step_ends, &first));
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(first.begun == 1 && first.ended == 1 && !strcmp(first.name, "tenon::mul+add"));
  OK(tenon_observe_steps(step_begins, step_ends, &second)); /* in place of the first */
  OK(tenon_program_run(program, in, 2, out, 1));
  OK(tenon_observe_steps(NULL, NULL, NULL));
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(first.begun == 1 && second.begun == 1 && second.ended == 1);
  tenon_program_release(program);
}

typedef struct lent {
  float* memory; /* for the output */
  int allocated, released;
} lent;
static void* lend(void* user, size_t output) {
  lent* l = user;
  CHECK(output == 0 && l->released == 0);
  ++l->allocated;
  return l->memory;
}
static void take_back(void* user, size_t input) {
  CHECK(input == 1);
  ++((lent*)user)->released;
}

void hosts(void) {
  float x[4] = {1, 2, 3, 4}, d[4] = {5, 6, 7, 8}, y[4] = {0};
  int64_t shape[1] = {4};
  tenon_tensor tx = tensor(x, f32, 1, shape), td = tensor(d, f32, 1, shape), ty = tensor(NULL, f32, 1, shape);
  const tenon_tensor *in[2], *out[1];
  lent given = {0};
  tenon_run_host host = {0};
  tenon_program* program =
      compile("graph @t(%x: f32[4], %d: f32[4] donated) {\n  %y = add(%x, %d)\n  return %y\n}\n");
  in[0] = &tx, in[1] = &td, out[0] = &ty;
  given.memory = y;
  host.struct_size = sizeof host, host.user = &given, host.allocate = lend, host.release = take_back;
  OK(tenon_program_run_with(program, in, 2, out, 1, &host));
  CHECK(y[0] == 6 && y[3] == 12 && given.allocated == 1 && given.released == 1);
  given.memory = NULL, given.released = 0;
  REFUSED(tenon_program_run_with(program, in, 2, out, 1, &host), TENON_ENVIRONMENT,
          "no memory for an output");
  REFUSED(tenon_program_run_with(program, in, 2, out, 1, NULL), TENON_ENVIRONMENT, "no memory for an output");
  INVALID(tenon_program_run(program, in, 2, out, 1), "output %y|no data");
  INVALID(tenon_program_run_with(NULL, in, 2, out, 1, &host), "NULL");
  ty.data = y, host.allocate = NULL, host.release = NULL;
  OK(tenon_program_run_with(program, in, 2, out, 1, &host));
  td.data = x; /* a donated input is written to */
  INVALID(tenon_program_run_with(program, in, 2, out, 1, &host), "donated input %d overlaps input %x");
  host.struct_size = 1;
  INVALID(tenon_program_run_with(program, in, 2, out, 1, &host), "tenon_run_host|struct_size");
  tenon_program_release(program);
}

void strided(void) {
  float x[6] = {0, 1, 2, 3, 4, 5}, y[6];
  int64_t shape[2] = {2, 3}, strides[2] = {1, 2}, wrong[2] = {3, 1};
  tenon_tensor tx = tensor(x, f32, 2, shape), ty = tensor(y, f32, 2, shape);
  const tenon_tensor *in[1], *out[1];
  tenon_program* program =
      compile("graph @t(%x: f32[N,3] strides=[1,N]) {\n  %y = neg(%x)\n  return %y\n}\n");
  in[0] = &tx, out[0] = &ty;
  tx.strides = strides;
  OK(tenon_program_run(program, in, 1, out, 1));
  CHECK(y[1] == -2 && y[3] == -1);
  tx.strides = wrong;
  INVALID(tenon_program_run(program, in, 1, out, 1), "%x|strides [1,2]|[3,1]");
  tx.strides = NULL;
  INVALID(tenon_program_run(program, in, 1, out, 1), "%x|strides [1,2]");
  tenon_program_release(program);
}

void freeze(void) {
  float x[4] = {1, 1, 1, 1}, w[4] = {1, 2, 3, 4}, w2[4] = {5, 6, 7, 8}, y[4];
  int64_t sx[2] = {1, 4}, sw[1] = {4}, bad_shape[1] = {5};
  tenon_tensor tx = tensor(x, f32, 2, sx), tw = tensor(w, f32, 1, sw), ty = tensor(y, f32, 2, sx);
  const tenon_tensor *params[2], *in[2], *out[1];
  tenon_program_options options;
  tenon_program* program = NULL;
  tenon_graph* graph = parse(
      "graph @f(%x: f32[N,4], %w: f32[4] param) {\n  %e = mul(%w, %w)\n  %y = add(%x, %e)\n  return %y\n}\n");
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.freeze = 1;
  params[0] = NULL, params[1] = &tw, in[0] = &tx, in[1] = NULL, out[0] = &ty;
  OK(tenon_program_create(graph, &options, params, 2, &program));
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(y[0] == 2 && y[3] == 17);
  tw.data = w2;
  OK(tenon_program_update_params(program, params, 2));
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(y[0] == 26 && y[3] == 65);
  tw.shape = bad_shape;
  INVALID(tenon_program_update_params(program, params, 2), "%w|f32[4]|[5]");
  tw.shape = sw, tw.dtype = f64;
  INVALID(tenon_program_update_params(program, params, 2), "%w|f32[4]|f64");
  tw.dtype = f32, tw.data = NULL;
  INVALID(tenon_program_update_params(program, params, 2), "param 1|no data");
  INVALID(tenon_program_update_params(program, params, 1), "2|1");
  INVALID(tenon_program_update_params(program, NULL, 2), "NULL");
  OK(tenon_program_run(program, in, 2, out, 1)); /* failed runs change nothing */
  CHECK(y[0] == 26 && y[3] == 65);
  in[0] = NULL;
  INVALID(tenon_program_run(program, in, 2, out, 1), "%x");
  tenon_program_release(program);
  program = (tenon_program*)&options;
  tw.data = w, tw.shape = bad_shape;
  INVALID(tenon_program_create(graph, &options, params, 2, &program), "%w|f32[4]|[5]");
  CHECK(program == NULL);
  INVALID(tenon_program_create(graph, &options, params, 3, &program), "2|3");
  tenon_graph_release(graph);
}

/* ---- run: every wrong tensor, outputs untouched ---- */

void bad_tensors(void) {
  float x[8], w[4] = {1, 2, 3, 4}, y[16], before[16];
  int64_t sx[2] = {2, 4}, sw[1] = {4}, sy[2] = {2, 4}, three[3] = {2, 4, 1}, narrow[2] = {2, 3},
          strides[2] = {8, 1};
  int64_t many[17], negative[2] = {-1, 4};
  tenon_tensor tx, tw, ty;
  const tenon_tensor *in[3], *out[2];
  tenon_program* program = compile(kScale);
  size_t i;
  for (i = 0; i < 8; ++i) x[i] = 1;
  for (i = 0; i < 16; ++i) before[i] = y[i] = 77;
  for (i = 0; i < 17; ++i) many[i] = 1;
#define FRESH                                                                                       \
  (tx = tensor(x, f32, 2, sx), tw = tensor(w, f32, 1, sw), ty = tensor(y, f32, 2, sy), in[0] = &tx, \
   in[1] = &tw, in[2] = &tw, out[0] = &ty, out[1] = &ty)
#define RUN tenon_program_run(program, in, 2, out, 1)
#define BAD(change, words) (FRESH, (void)(change), INVALID(RUN, words), CHECK(!memcmp(y, before, sizeof y)))
  BAD(tx.data = NULL, "%x|no data");
  BAD(ty.data = NULL, "%z|no data");
  BAD(tx.dtype = f64, "%x|f32[N,4]|f64");
  BAD(tx.dtype.bits = 31, "input 0|31");
  BAD(tx.dtype.lanes = 2, "input 0|2 lanes");
  BAD(ty.dtype = i64, "%z|f32[N,4]|i64");
  BAD(tx.ndim = 1, "%x|f32[N,4]|[2]");
  BAD(tx.ndim = -1, "input 0|rank -1");
  BAD((tx.ndim = 17, tx.shape = many), "input 0|rank 17");
  BAD((ty.ndim = 3, ty.shape = three), "%z|[2,4,1]");
  BAD(tx.shape = narrow, "%x|f32[N,4]|[2,3]");
  BAD(ty.shape = narrow, "%z|[2,4]|[2,3]");
  BAD(tx.shape = negative, "N|-1");
  BAD(tx.shape = NULL, "input 0|shape");
  BAD(ty.shape = NULL, "output 0|shape");
  BAD(tx.strides = strides, "%x|[4,1]|[8,1]");
  BAD(ty.strides = strides, "%z|[4,1]|[8,1]");
  BAD(tx.device.type = 2, "input %x|device 0 of type 2|CPU");
  BAD(ty.device.type = 2, "output %z|device 0 of type 2|CPU");
  BAD(in[0] = NULL, "%x");
  BAD(out[0] = NULL, "%z");
  FRESH;
  INVALID(tenon_program_run(NULL, in, 2, out, 1), "program");
  INVALID(tenon_program_run(program, NULL, 2, out, 1), "input");
  INVALID(tenon_program_run(program, in, 2, NULL, 1), "output");
  INVALID(tenon_program_run(program, in, 1, out, 1), "2 inputs|1");
  INVALID(tenon_program_run(program, in, 3, out, 1), "2 inputs|3");
  INVALID(tenon_program_run(program, in, 2, out, 0), "1 output|0");
  INVALID(tenon_program_run(program, in, 2, out, 2), "1 output|2");
  CHECK(!memcmp(y, before, sizeof y));
  /* An overlap with an input by one element is refused; adjacent memory is allowed. */
  FRESH, tx.data = y, ty.data = y + 7;
  INVALID(RUN, "%z|overlaps|%x");
  CHECK(!memcmp(y, before, sizeof y));
  ty.data = y + 8;
  OK(RUN);
  tenon_program_release(program);

  program = compile("graph @two(%x: f32[4]) {\n  %a = neg(%x)\n  %b = exp(%x)\n  return %a, %b\n}\n");
  {
    tenon_tensor tb;
    tx = tensor(x, f32, 1, sw), ty = tensor(y, f32, 1, sw), tb = tensor(y + 3, f32, 1, sw);
    out[0] = &ty, out[1] = &tb;
    memcpy(y, before, sizeof y);
    INVALID(tenon_program_run(program, in, 1, out, 2), "overlaps|output|%b");
    CHECK(!memcmp(y, before, sizeof y));
    tb.data = y + 4;
    OK(tenon_program_run(program, in, 1, out, 2));
  }
  tenon_program_release(program);
  /* Sizes beyond any memory. */
  program = compile("graph @big(%x: f32[N], %y: f32[M]) {\n  %a = expand(%x){shape=[M,N]}\n  return %a\n}\n");
  {
    int64_t huge[1] = {INT64_C(1) << 40}, square[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    tx = tensor(x, f32, 1, huge), tw = tensor(w, f32, 1, huge), ty = tensor(y, f32, 2, square);
    in[0] = &tx, in[1] = &tw, out[0] = &ty;
    memcpy(y, before, sizeof y);
    INVALID(tenon_program_run(program, in, 2, out, 1), "%a|1099511627776|bytes");
    CHECK(!memcmp(y, before, sizeof y));
  }
  tenon_program_release(program);
}

/* ---- contexts ---- */

typedef struct host {
  int loops, ranges, most, messages;
} host;

/* Runs ranges backwards, to show that their order does not matter. */
static void host_parallel_for(void* user, int64_t n, int32_t most, tenon_range_fn fn, void* arg) {
  host* h = (host*)user;
  int32_t i;
  ++h->loops;
  if (most > h->most) h->most = most;
  for (i = most; i-- > 0;) {
    int64_t begin = n * i / most, end = n * (i + 1) / most;
    if (begin < end) ++h->ranges, fn(arg, i, begin, end);
  }
}
static void host_log(void* user, const char* topic, const char* message) {
  ((host*)user)->messages += *topic && *message;
}

void contexts(void) {
  enum { kRows = 512, kColumns = 1024 };
  host h = {0, 0, 0, 0};
  tenon_context *context = NULL, *plain = NULL;
  tenon_context_options options;
  tenon_program_options program_options;
  tenon_program* program = NULL;
  tenon_graph* graph = parse("graph @f(%x: f32[N,M]) {\n  %y = exp(%x)\n  %z = neg(%y)\n  return %z\n}\n");
  float* x = (float*)calloc(kRows * kColumns, sizeof(float));
  float* y = (float*)calloc(kRows * kColumns, sizeof(float));
  int64_t shape[2] = {kRows, kColumns};
  tenon_tensor tx = tensor(x, f32, 2, shape), ty = tensor(y, f32, 2, shape);
  const tenon_tensor *in[1], *out[1];
  size_t i, wrong = 0;
  in[0] = &tx, out[0] = &ty;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.parallel_for = host_parallel_for, options.parallel_user = &h;
  INVALID(tenon_context_create(&options, &context), "num_threads");
  options.num_threads = -1;
  INVALID(tenon_context_create(&options, &context), "num_threads");
  options.num_threads = 3;
  options.log = host_log, options.log_user = &h;
  OK(tenon_context_create(&options, &context));
  memset(&program_options, 0, sizeof program_options);
  program_options.struct_size = sizeof program_options;
  program_options.context = context;
  OK(tenon_program_create(graph, &program_options, NULL, 0, &program));
  tenon_context_release(context); /* the program keeps it */
  OK(tenon_program_run(program, in, 1, out, 1));
  for (i = 0; i < kRows * kColumns; ++i) wrong += y[i] != -1;
  CHECK(wrong == 0);
  CHECK(h.loops == 1 && h.ranges == 3 && h.most == 3);
  tenon_program_release(program);
  program_options.num_threads = 1; /* the program's number takes precedence over the context's */
  OK(tenon_context_create(&options, &context));
  program_options.context = context;
  OK(tenon_program_create(graph, &program_options, NULL, 0, &program));
  OK(tenon_program_run(program, in, 1, out, 1));
  CHECK(h.loops == 1);
  tenon_program_release(program);
  tenon_context_retain(context);
  tenon_context_release(context);
  tenon_context_release(context);
  OK(tenon_context_create(NULL, &plain));
  program_options.context = plain, program_options.num_threads = 0;
  OK(tenon_program_create(graph, &program_options, NULL, 0, &program));
  OK(tenon_program_run(program, in, 1, out, 1));
  tenon_program_release(program);
  tenon_context_release(plain);
  tenon_graph_release(graph);
  free(x), free(y);
}

void* heap_alloc(void* user, size_t bytes, size_t alignment) {
  heap* h = (heap*)user;
  if (h->refuse || h->asked++ == h->fail_at || (h->sticky && h->asked > h->fail_at)) return NULL;
  ++h->blocks, h->bytes += bytes;
  {
    /* C99 has no aligned allocation, so the address of the allocation is stored in front of the block. */
    char* block = (char*)malloc(bytes + alignment + sizeof(void*));
    char* start = block + sizeof(void*);
    start += (alignment - (uintptr_t)start % alignment) % alignment;
    memcpy(start - sizeof(void*), &block, sizeof(void*));
    return start;
  }
}
void heap_free(void* user, void* block, size_t bytes) {
  heap* h = (heap*)user;
  void* start;
  memcpy(&start, (char*)block - sizeof(void*), sizeof(void*));
  --h->blocks, h->bytes -= bytes;
  free(start);
}

void allocators(void) {
  heap h = {0, 0, 0, 0, SIZE_MAX, 0};
  tenon_context* context = NULL;
  tenon_context_options options;
  tenon_program_options program_options;
  tenon_program* program = NULL;
  tenon_program_stats stats;
  /* Two groups with a tensor between them: the second reads it column by column. */
  tenon_graph* graph = parse(
      "graph @f(%x: f32[8,8]) {\n  %a = softmax(%x){axis=0}\n  %b = softmax(%a){axis=1}\n  %c = matmul(%b, "
      "%a)\n"
      "  return %c\n}\n");
  float x[64], y[64];
  int64_t shape[2] = {8, 8};
  tenon_tensor tx = tensor(x, f32, 2, shape), ty = tensor(y, f32, 2, shape);
  const tenon_tensor *in[1], *out[1];
  size_t i;
  in[0] = &tx, out[0] = &ty;
  for (i = 0; i < 64; ++i) x[i] = 1, y[i] = 77;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.alloc = heap_alloc, options.allocator_user = &h;
  INVALID(tenon_context_create(&options, &context), "alloc|free");
  options.free = heap_free;
  OK(tenon_context_create(&options, &context));
  memset(&program_options, 0, sizeof program_options);
  program_options.struct_size = sizeof program_options;
  program_options.context = context;
  OK(tenon_program_create(graph, &program_options, NULL, 0, &program));
  h.refuse = 1;
  CHECK(tenon_program_run(program, in, 1, out, 1) == TENON_ENVIRONMENT &&
        strstr(tenon_last_error(), "memory"));
  for (i = 0; i < 64; ++i) CHECK(y[i] == 77);
  h.refuse = 0;
  OK(tenon_program_run(program, in, 1, out, 1));
  CHECK(y[0] > 0.124f && y[0] < 0.126f);
  stats.struct_size = sizeof stats;
  OK(tenon_program_get_stats(program, &stats));
  CHECK(h.blocks == 1 && h.bytes == (size_t)stats.workspace_bytes);
  OK(tenon_program_run(program, in, 1, out, 1));
  CHECK(h.blocks == 1); /* the workspace is kept */
  OK(tenon_release_memory());
  CHECK(h.blocks == 0);
  OK(tenon_program_run(program, in, 1, out, 1));
  CHECK(h.blocks == 1);
  tenon_program_release(program);
  CHECK(h.blocks == 0 && h.bytes == 0);
  tenon_context_release(context);
  tenon_graph_release(graph);
}

/* TENON_DUMP sends texts to the logger of the newest living context. */
void loggers(void) {
  host first = {0, 0, 0, 0}, second = {0, 0, 0, 0};
  tenon_context *a = NULL, *b = NULL;
  tenon_context_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.log = host_log, options.log_user = &first;
  OK(tenon_context_create(&options, &a));
  options.log_user = &second;
  OK(tenon_context_create(&options, &b));
  tenon_program_release(compile(kScale));
  CHECK(first.messages == 0 && second.messages > 0);
  tenon_context_release(b);
  tenon_program_release(compile(kScale));
  CHECK(first.messages == second.messages);
  tenon_context_release(a);
}
