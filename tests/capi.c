/* Plays a host framework in C99, with the shared library and tenon.h alone: what works, then everything a host can get
 * wrong. Each refusal must have its status and a sentence that names what is wrong, and leave outputs as they were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"

static int checks = 0, failures = 0;

static void check_at(int line, int good, const char* what) {
  ++checks;
  if (good) return;
  ++failures;
  printf("tests/capi.c:%d: %s; last error: %s\n", line, what, tenon_last_error());
}
#define CHECK(condition) check_at(__LINE__, (condition) != 0, #condition)
#define OK(call) check_at(__LINE__, (call) == TENON_OK, #call)

/* The call fails with this status, and its message has every one of the words (separated by |). */
static void refused_at(int line, tenon_status got, tenon_status want, const char* words, const char* what) {
  char word[128];
  const char* message = tenon_last_error();
  ++checks;
  if (got != want) {
    ++failures;
    printf("tests/capi.c:%d: %s: %s, not %s: %s\n", line, what, tenon_status_name(got),
           tenon_status_name(want), message);
    return;
  }
  while (*words) {
    size_t n = strcspn(words, "|");
    memcpy(word, words, n);
    word[n] = 0;
    if (!strstr(message, word)) {
      ++failures;
      printf("tests/capi.c:%d: %s: no '%s' in: %s\n", line, what, word, message);
    }
    words += words[n] ? n + 1 : n;
  }
}
#define INVALID(call, words) (tenon_clear_error(), refused_at(__LINE__, (call), TENON_INVALID, words, #call))
#define UNSUPPORTED(call, words) \
  (tenon_clear_error(), refused_at(__LINE__, (call), TENON_UNSUPPORTED, words, #call))

static const tenon_dtype f32 = {2, 32, 1}, f64 = {2, 64, 1}, i64 = {0, 64, 1};

static tenon_tensor tensor(void* data, tenon_dtype dtype, int32_t ndim, int64_t* shape) {
  tenon_tensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.type = 1;
  t.ndim = ndim;
  t.dtype = dtype;
  t.shape = shape;
  return t;
}

static tenon_graph* parse(const char* text) {
  tenon_graph* graph = NULL;
  OK(tenon_graph_parse(text, TENON_NTS, &graph));
  return graph;
}

static tenon_program* compile(const char* text) {
  tenon_graph* graph = parse(text);
  tenon_program* program = NULL;
  OK(tenon_program_create(graph, NULL, NULL, 0, &program));
  tenon_graph_release(graph); /* the program keeps what it needs */
  return program;
}

static const char kScale[] =
    "graph @scale(%x: f32[N,4], %w: f32[4]) {\n"
    "  %y = mul(%x, %w)\n"
    "  %z = add(%y, %x)\n"
    "  return %z\n"
    "}\n";

/* ---- what works ---- */

static void versions(void) {
  CHECK(tenon_version() == ((uint32_t)TENON_VERSION_MAJOR << 16 | TENON_VERSION_MINOR));
  CHECK(strstr(tenon_build_info(), tenon_version_string()) != NULL);
  CHECK(strstr(tenon_build_info(), "reference") != NULL);
  CHECK(!strcmp(tenon_status_name(TENON_OK), "ok") && !strcmp(tenon_status_name(TENON_INTERNAL), "internal"));
  CHECK(!strcmp(tenon_status_name(-1), "unknown") && !strcmp(tenon_status_name(5), "unknown"));
  CHECK(tenon_graph_parse("x", TENON_NTS, NULL) == TENON_INVALID && *tenon_last_error());
  tenon_clear_error();
  CHECK(!*tenon_last_error());
  CHECK(sizeof(tenon_tensor) == 48); /* DLTensor on 64-bit machines */
}

static void run_and_stats(void) {
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
  for (rows = 3; rows-- > 0;) { /* also no row at all */
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

static void strided(void) {
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

static void freeze(void) {
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
  OK(tenon_program_run(program, in, 2, out, 1)); /* as before the failures */
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

static void bad_tensors(void) {
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
  BAD(tx.device.type = 2, "input 0|device type 2");
  BAD(ty.device.type = 2, "output 0|device type 2");
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
  /* Overlap: with an input, wholly and by one element; beside it is fine. */
  FRESH, tx.data = y, ty.data = y;
  INVALID(RUN, "%z|overlaps|%x");
  ty.data = y + 7;
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
  /* Sizes that no memory holds. */
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

/* ---- graphs from text ---- */

static void bad_text(void) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"", "1:1"},
      {"graph", "1:6"},
      {"graph @f(%x: f32[4]) {\n  %y = ex(%x)\n  return %y\n}\n", "2:8|unknown op 'ex'|'exp'"},
      {"graph @f(%x: f32[4]) {\n  %y = exp(%x, %x)\n  return %y\n}\n", "2:3|exp|1 operand|2"},
      {"graph @f(%x: f32[4]) {\n  %y = exp(%x)\n  %y = neg(%x)\n  return %y\n}\n", "3:3|%y is defined twice"},
      {"graph @f(%x: f32[4]) {\n  %y = exp(%q)\n  return %y\n}\n", "2:12|%q is not defined"},
      {"graph @f(%x: f32[4]) {\n  %y = exp(%z)\n  %z = exp(%y)\n  return %z\n}\n", "2:12|%z|before"},
      {"graph @f(%x: f32[4]) {\n  %y = exp(%x)\n}\n", "return"},
      {"graph @f(%x: f33[4]) {\n  return %x\n}\n", "1:14|f33|'f32'"},
      {"graph @f(%x: f32[4], %x: f32[4]) {\n  return %x\n}\n", "1:22|twice"},
      {"graph @f(%x: f32[4], %y: f32[5]) {\n  %z = add(%x, %y)\n  return %z\n}\n", "2:3|f32[4]|f32[5]"},
      {"graph @f(%x: f32[4], %y: i64[4]) {\n  %z = add(%x, %y)\n  return %z\n}\n", "2:3|f32[4]|i64[4]"},
      {"graph @f(%x: f32[4]) {\n  %z = softmax(%x){axis=3}\n  return %z\n}\n", "2:3|softmax|axis|3"},
      {"graph @f(%x: f32[4]) {\n  %z = exp(%x) : f32[5]\n  return %z\n}\n", "2:18|f32[5]|f32[4]"},
      {"graph @f(%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) {\n  return %x\n}\n", "rank 17"},
      {"graph @f(%x: f32[4611686018427387903,4]) {\n  return %x\n}\n", "1:10|bytes"},
      {"graph @f(%x: f32[99999999999999999999]) {\n  return %x\n}\n", "1:18"},
      {"graph @f(%x: f32[4]) {\n  %a = ad(%x)\n  %b = exp(%w)\n  return %b\n}\n",
       "2:8|3:12"}, /* all at once */
  };
  size_t i;
  for (i = 0; i < sizeof cases / sizeof *cases; ++i) {
    tenon_graph* graph = (tenon_graph*)&i;
    INVALID(tenon_graph_parse(cases[i].text, TENON_NTS, &graph), cases[i].words);
    CHECK(graph == NULL);
  }
  /* Cut anywhere, with and without the zero byte in reach: a status, never a crash. */
  for (i = 0; i + 2 < sizeof kScale; ++i) {
    char* cut = (char*)malloc(i ? i : 1);
    tenon_graph* graph = NULL;
    memcpy(cut, kScale, i);
    INVALID(tenon_graph_parse(cut, i, &graph), "");
    free(cut);
  }
  {
    tenon_graph* graph = NULL;
    INVALID(tenon_graph_parse(NULL, 0, &graph), "NULL");
    INVALID(tenon_graph_parse(kScale, TENON_NTS, NULL), "NULL");
    INVALID(tenon_graph_parse("\0\xff\x01", 3, &graph), "1:1");
  }
}

static void prints(void) {
  tenon_graph *graph = parse(kScale), *again = NULL;
  char buffer[512], other[512];
  size_t length = 0, n = 0;
  OK(tenon_graph_print(graph, NULL, 0, &length));
  CHECK(length > 20 && length < sizeof buffer);
  memset(buffer, 'x', sizeof buffer);
  INVALID(tenon_graph_print(graph, buffer, length, &n), "bytes");
  CHECK(n == length && buffer[0] == 'x');
  OK(tenon_graph_print(graph, buffer, length + 1, &n));
  CHECK(strlen(buffer) == length);
  OK(tenon_graph_parse(buffer, length, &again));
  OK(tenon_graph_print(again, other, sizeof other, &n));
  CHECK(!strcmp(buffer, other));
  INVALID(tenon_graph_print(NULL, buffer, sizeof buffer, &n), "graph");
  INVALID(tenon_graph_print(graph, buffer, sizeof buffer, NULL), "length");
  INVALID(tenon_graph_print(graph, NULL, 10, &n), "buffer");
  tenon_graph_release(graph), tenon_graph_release(again);
}

/* ---- struct_size ---- */

/* A structure inside more room than it needs. */
typedef union room {
  size_t struct_size;
  tenon_program_options program;
  tenon_context_options context;
  tenon_program_stats stats;
  tenon_op_info info;
  tenon_op_desc desc;
  tenon_input_options input;
  unsigned char bytes[256];
} room;

static void struct_sizes(void) {
  tenon_graph* graph = parse(kScale);
  tenon_program* program = NULL;
  tenon_context* context = NULL;
  room r;
  size_t size;
  memset(&r, 0, sizeof r);
#define CREATE tenon_program_create(graph, &r.program, NULL, 0, &program)
  r.struct_size = 0;
  INVALID(CREATE, "struct_size 0");
  r.struct_size = SIZE_MAX;
  INVALID(CREATE, "struct_size");
  r.struct_size = sizeof(size_t) - 1;
  INVALID(CREATE, "struct_size");
  r.struct_size =
      sizeof(size_t); /* the oldest caller: knows no field; the others are defaults whatever stands there */
  r.program.num_threads = -5;
  OK(CREATE);
  tenon_program_release(program);
  r.struct_size = sizeof r.program;
  INVALID(CREATE, "num_threads");
  r.program.num_threads = 0;
  for (size = sizeof r.program; size <= sizeof r; size += 8) { /* a newer caller whose new fields are zero */
    r.struct_size = size;
    OK(CREATE);
    tenon_program_release(program);
  }
  r.bytes[sizeof r.program + 5] = 1;
  r.struct_size = sizeof r.program;
  OK(CREATE); /* not part of it */
  tenon_program_release(program);
  r.struct_size = sizeof r.program + 8;
  UNSUPPORTED(CREATE, "tenon_program_options");
  CHECK(program == NULL);

  memset(&r, 0, sizeof r);
  INVALID(tenon_context_create(&r.context, &context), "tenon_context_options");
  r.struct_size = sizeof r.context + 1, r.bytes[sizeof r.context] = 1;
  UNSUPPORTED(tenon_context_create(&r.context, &context), "tenon_context_options");

  OK(tenon_program_create(graph, NULL, NULL, 0, &program));
  memset(&r, 0xAB, sizeof r);
  r.struct_size = 0;
  INVALID(tenon_program_get_stats(program, &r.stats), "struct_size 0");
  r.struct_size = SIZE_MAX;
  INVALID(tenon_program_get_stats(program, &r.stats), "struct_size");
  CHECK(r.bytes[sizeof(size_t)] == 0xAB);
  r.struct_size = sizeof(size_t) + 8;
  OK(tenon_program_get_stats(program, &r.stats));
  CHECK(r.stats.nodes == 2 && r.bytes[sizeof(size_t) + 8] == 0xAB && r.struct_size == sizeof(size_t) + 8);
  r.struct_size = sizeof r.stats + 16;
  OK(tenon_program_get_stats(program, &r.stats));
  CHECK(r.stats.steps == 1 && r.bytes[sizeof r.stats] == 0 && r.bytes[sizeof r.stats + 16] == 0xAB);
  tenon_program_release(program);
  tenon_graph_release(graph);
}

static void nulls(void) {
  tenon_graph* graph = parse(kScale);
  tenon_program *program = NULL, *other = NULL;
  tenon_program_stats stats;
  const char* text = NULL;
  size_t length = 0;
  stats.struct_size = sizeof stats;
  INVALID(tenon_program_create(NULL, NULL, NULL, 0, &other), "graph");
  INVALID(tenon_program_create(graph, NULL, NULL, 0, NULL), "out");
  INVALID(tenon_program_create(graph, NULL, NULL, 2, &other), "param");
  OK(tenon_program_create(graph, NULL, NULL, 0, &program));
  INVALID(tenon_program_update_params(NULL, NULL, 0), "program");
  INVALID(tenon_program_explain(NULL, 0, &text, &length), "NULL");
  INVALID(tenon_program_explain(program, 0, NULL, &length), "NULL");
  INVALID(tenon_program_explain(program, 0, &text, NULL), "NULL");
  INVALID(tenon_program_get_stats(NULL, &stats), "NULL");
  INVALID(tenon_program_get_stats(program, NULL), "NULL");
  INVALID(tenon_context_create(NULL, NULL), "out");
  INVALID(tenon_op_describe(NULL, NULL), "NULL");
  INVALID(tenon_op_describe("exp", NULL), "NULL");
  INVALID(tenon_op_register(NULL), "NULL");
  tenon_program_release(program);
  tenon_graph_release(graph);
}

/* ---- ops ---- */

static void ops(void) {
  size_t i, n = tenon_op_count();
  tenon_op_info info;
  tenon_op_desc desc;
  tenon_program* program;
  tenon_graph* graph = NULL;
  float x[4] = {1, 2, 3, 4}, y[4];
  int64_t shape[2] = {2, 2};
  tenon_tensor tx = tensor(x, f32, 2, shape), ty = tensor(y, f32, 2, shape);
  const tenon_tensor *in[1], *out[1];
  in[0] = &tx, out[0] = &ty;
  CHECK(n > 100);
  info.struct_size = sizeof info;
  for (i = 0; i < n; ++i) {
    OK(tenon_op_describe(tenon_op_name(i), &info));
    CHECK(!strcmp(info.name, tenon_op_name(i)) && *info.kind && *info.doc && info.attrs && info.arity >= -1);
  }
  CHECK(tenon_op_name(n) == NULL && tenon_op_name(SIZE_MAX) == NULL);
  OK(tenon_op_describe("softmax", &info));
  CHECK(!strcmp(info.kind, "composite") && strstr(info.attrs, "axis:int") && info.arity == 1);
  INVALID(tenon_op_describe("softmaxx", &info), "softmaxx|'softmax'");

  memset(&desc, 0, sizeof desc);
  desc.struct_size = sizeof desc;
  desc.name = "swish_rows", desc.arity = 1, desc.attrs = "beta:float=2 last:int",
  desc.doc = "x sigmoid(beta x), cut";
  desc.body =
      "graph @body(%x: f32[N,M], %beta: f32[]) {\n  %s = mul(%x, %beta)\n  %g = sigmoid(%s)\n  %y = mul(%x, "
      "%g)\n"
      "  %z = slice(%y){axis=1, start=0, end=last}\n  return %z\n}\n";
  OK(tenon_op_register(&desc));
  CHECK(tenon_op_count() == n + 1 && !strcmp(tenon_op_name(n), "swish_rows"));
  INVALID(tenon_op_register(&desc), "swish_rows|taken");
  OK(tenon_op_describe("swish_rows", &info));
  CHECK(!strcmp(info.kind, "composite") && info.arity == 1 && !strcmp(info.doc, desc.doc));
  program = compile("graph @f(%x: f32[K,2]) {\n  %y = swish_rows(%x){last=1} : f32[K,1]\n  return %y\n}\n");
  shape[1] = 2;
  {
    int64_t one[2] = {2, 1};
    ty.shape = one;
    OK(tenon_program_run(program, in, 1, out, 1));
    CHECK(y[0] > 0.8807f && y[0] < 0.8809f && y[1] > 2.9925f && y[1] < 2.9927f);
  }
  tenon_program_release(program);
  INVALID(tenon_graph_parse("graph @f(%x: f64[3,2]) {\n  %y = swish_rows(%x){last=1}\n  return %y\n}\n",
                            TENON_NTS, &graph),
          "2:3|swish_rows|f64[3,2]|f32[N,M]");
  INVALID(tenon_graph_parse("graph @f(%x: f32[3]) {\n  %y = swish_rows(%x){last=1}\n  return %y\n}\n",
                            TENON_NTS, &graph),
          "2:3|f32[3]");
  INVALID(tenon_graph_parse("graph @f(%x: f32[3,2]) {\n  %y = swish_rows(%x){last=7}\n  return %y\n}\n",
                            TENON_NTS, &graph),
          "2:3|swish_rows|slice");

#define REGISTER(change, words) \
  (desc.name = "other", (void)(change), INVALID(tenon_op_register(&desc), words))
  REGISTER(desc.name = "not a name", "not a name");
  REGISTER(desc.name = "exp", "taken");
  REGISTER(desc.name = NULL, "NULL");
  REGISTER(desc.arity = -1, "arity");
  REGISTER(desc.arity = 3, "2 inputs|3");
  REGISTER((desc.arity = 1, desc.attrs = "last:int"), "%beta"); /* no operand, no attribute */
  REGISTER(desc.attrs = "beta:float=2", "last");
  REGISTER(desc.attrs = "beta:float=2 last:ints", "last");
  REGISTER(desc.attrs = "beta", "beta");
  REGISTER((desc.attrs = NULL, desc.body = "graph @b(%x: f32[N]) {\n  %y = exq(%x)\n  return %y\n}\n"),
           "2:8|exq");
  REGISTER(desc.body = "graph @b(%x: f32[N]) {\n  return %x, %x\n}\n", "one output");
  REGISTER(desc.body = "graph @b(%x: f32[2*N]) {\n  return %x\n}\n", "N");
  REGISTER(desc.body = NULL, "NULL");
  REGISTER((desc.body = "graph @b(%x: f32[N]) {\n  return %x\n}\n", desc.doc = NULL), "NULL");
  REGISTER((desc.doc = "x", desc.struct_size = 0), "struct_size");
  CHECK(tenon_op_count() == n + 1);
}

/* ---- graphs step by step ---- */

static void build(void) {
  tenon_graph* graph = NULL;
  tenon_program* program = NULL;
  tenon_value x, c, ids[2], y, w;
  float five[2] = {5, 6}, in_data[4] = {1, 2, 3, 4}, out_data[4];
  int64_t two[1] = {2}, shape[2] = {2, 2}, backwards[1] = {1};
  tenon_tensor constant = tensor(five, f32, 1, two), ti = tensor(in_data, f32, 2, shape),
               to = tensor(out_data, f32, 2, shape);
  const tenon_tensor *in[1], *out[1];
  char text[512];
  size_t length = 0;
  in[0] = &ti, out[0] = &to;
  OK(tenon_graph_create("built", &graph));
  OK(tenon_graph_add_input(graph, "x", f32, "N,2", NULL, &x));
  constant.strides = backwards;
  OK(tenon_graph_add_constant(graph, NULL, &constant, &c));
  five[0] = 50; /* copied */
  ids[0] = x, ids[1] = c;
  OK(tenon_graph_add_node(graph, "add", ids, 2, NULL, "s", &y));
  OK(tenon_graph_add_node(graph, "sum", &y, 1, "axes=[1], keepdims=true", NULL, &w));
  ids[0] = y, ids[1] = w;
  OK(tenon_graph_add_node(graph, "div", ids, 2, "", "q", &y));
  OK(tenon_graph_set_outputs(graph, &y, 1, NULL));
  INVALID(tenon_program_create(graph, NULL, NULL, 0, &program), "not finalized");
  INVALID(tenon_graph_print(graph, text, sizeof text, &length), "not finalized");
  OK(tenon_graph_finalize(graph));
  INVALID(tenon_graph_finalize(graph), "finished");
  INVALID(tenon_graph_add_input(graph, "z", f32, "", NULL, &x), "finished");
  CHECK(x == TENON_NO_VALUE);
  INVALID(tenon_graph_set_outputs(graph, &y, 1, NULL), "finished");
  OK(tenon_graph_print(graph, text, sizeof text, &length));
  CHECK(strstr(text, "graph @built(%x: f32[N,2])") && strstr(text, "keepdims=true"));
  OK(tenon_program_create(graph, NULL, NULL, 0, &program));
  OK(tenon_program_run(program, in, 1, out, 1));
  CHECK(out_data[0] > 0.4285f && out_data[0] < 0.4286f); /* 6 / (6 + 8) */
  tenon_program_release(program);
  tenon_graph_release(graph);
}

static void bad_build(void) {
  tenon_graph* graph = NULL;
  tenon_value x, y, z, w, ids[2];
  tenon_input_options options;
  int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40}, negative[1] = {-3};
  float data[4] = {0, 0, 0, 0};
  tenon_tensor t = tensor(data, f32, 2, huge);
  const char* strides[1] = {"1,,2"};
  memset(&options, 0, sizeof options);
  INVALID(tenon_graph_create("a b", &graph), "name");
  INVALID(tenon_graph_create(NULL, NULL), "out");
  OK(tenon_graph_create(NULL, &graph));
  INVALID(tenon_graph_finalize(graph), "output"); /* none yet; not for good */
  OK(tenon_graph_add_input(graph, "x", f32, "4", NULL, &x));
  OK(tenon_graph_set_outputs(graph, &x, 1, NULL));
  OK(tenon_graph_finalize(graph));
  tenon_graph_release(graph);

  OK(tenon_graph_create(NULL, &graph));
  OK(tenon_graph_add_input(graph, "x", f32, "4", NULL, &x));
  INVALID(tenon_graph_add_input(graph, "x", f32, "4", NULL, &w), "%x|taken");
  CHECK(w == TENON_NO_VALUE);
  INVALID(tenon_graph_add_input(graph, "a", f32, "4,", NULL, &w), "%a|4,");
  INVALID(tenon_graph_add_input(graph, "b", f32, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", NULL, &w),
          "%b|rank 17");
  INVALID(tenon_graph_add_input(graph, "c", f32, "4611686018427387903,4", NULL, &w), "%c|bytes");
  INVALID(tenon_graph_add_input(graph, "d", f32, "0-4", NULL, &w), "%d|negative");
  INVALID(tenon_graph_add_input(graph, "e", f32, NULL, NULL, &w), "%e|dims");
  INVALID(tenon_graph_add_input(graph, "f", f32, "4", &options, &w), "%f|struct_size 0");
  options.struct_size = sizeof options, options.strides = "1,2*";
  INVALID(tenon_graph_add_input(graph, "g", f32, "4", &options, &w), "%g|1,2*");
  options.strides = NULL, options.symbol = "9";
  INVALID(tenon_graph_add_input(graph, "h", i64, "", &options, &w), "%h|'9'");
  INVALID(tenon_graph_add_input(graph, "no name", f32, "4", NULL, &w), "name");
  {
    tenon_dtype odd = {2, 31, 1};
    INVALID(tenon_graph_add_input(graph, "i", odd, "4", NULL, &w), "%i|31");
  }
  INVALID(tenon_graph_add_input(graph, "j", f32, "4", NULL, NULL), "out");
  INVALID(tenon_graph_add_input(NULL, "k", f32, "4", NULL, &w), "graph");
  INVALID(tenon_graph_add_constant(graph, "l", &t, &w), "%l|overflow");
  t.ndim = 1, t.shape = negative;
  INVALID(tenon_graph_add_constant(graph, "m", &t, &w), "%m|negative");
  INVALID(tenon_graph_add_constant(graph, "n", NULL, &w), "%n|NULL");
  INVALID(tenon_graph_add_constant(NULL, "n", &t, &w), "graph");
  INVALID(tenon_graph_add_node(graph, "expp", &x, 1, NULL, "y", &y), "%y|expp|'exp'");
  CHECK(y == TENON_NO_VALUE);
  ids[0] = x, ids[1] = 1000;
  INVALID(tenon_graph_add_node(graph, "add", ids, 2, NULL, "o", &w), "%o|add|operand 1|1000");
  INVALID(tenon_graph_add_node(graph, "exp", ids, 2, NULL, "p", &w), "exp");
  ids[1] = x;
  INVALID(tenon_graph_add_node(graph, "exp", ids, 2, NULL, "q", &w), "%q|exp|1 operand|2");
  INVALID(tenon_graph_add_node(graph, "exp", NULL, 1, NULL, "r", &w), "%r|inputs");
  INVALID(tenon_graph_add_node(graph, "exp", &x, SIZE_MAX, NULL, "r", &w), "%r");
  INVALID(tenon_graph_add_node(graph, NULL, &x, 1, NULL, "s", &w), "op");
  INVALID(tenon_graph_add_node(graph, "softmax", &x, 1, "axs=0", "t", &w), "%t|axs|'axis'");
  INVALID(tenon_graph_add_node(graph, "softmax", &x, 1, "axis=", "u", &w), "%u|axis=");
  INVALID(tenon_graph_add_node(graph, "softmax", &x, 1, NULL, "v", &w), "%v|axis");
  INVALID(tenon_graph_add_node(graph, "input", NULL, 0, NULL, "v2", &w), "input");
  INVALID(tenon_graph_add_node(NULL, "exp", &x, 1, NULL, "w", &w), "graph");
  INVALID(tenon_graph_add_node(graph, "exp", &x, 1, NULL, "w", NULL), "out");
  /* What reads a failed node is not reported again. */
  INVALID(tenon_graph_add_node(graph, "neg", &y, 1, NULL, "dependent", &z), "before");
  INVALID(tenon_graph_set_outputs(graph, &z, 1, NULL), "before");
  INVALID(tenon_graph_set_outputs(graph, NULL, 1, NULL), "values");
  INVALID(tenon_graph_set_outputs(graph, ids + 1, 1, strides), "output 0|1,,2");
  INVALID(tenon_graph_set_outputs(NULL, &x, 1, NULL), "graph");
  INVALID(tenon_graph_finalize(NULL), "graph");
  INVALID(tenon_graph_finalize(graph), "%a|%b|%c|expp|%u|output 0");
  CHECK(!strstr(tenon_last_error(), "dependent"));
  tenon_graph_release(graph);
}

/* ---- query ---- */

typedef struct asked {
  int nodes, runs, sentences;
} asked;
static void count(void* user, tenon_value node, const char* name, const char* op, const char* backend,
                  const char* why) {
  asked* a = (asked*)user;
  (void)node;
  ++a->nodes;
  a->runs += *backend != 0;
  a->sentences += *why && *name && *op;
}

static void queries(void) {
  asked a = {0, 0, 0};
  tenon_device cpu = {1, 0}, gpu = {2, 0};
  tenon_graph* graph = parse(
      "graph @f(%x: f32[N,4]) {\n  %t = transpose(%x){perm=[1,0]}\n  %s = softmax(%t){axis=-1}\n"
      "  %m = matmul(%s, %x)\n  %y = exp(%m)\n  return %y\n}\n");
  OK(tenon_graph_query(graph, cpu, count, &a));
  CHECK(a.nodes == 4 && a.runs == 4 && a.sentences == 4);
  a.nodes = a.runs = a.sentences = 0;
  OK(tenon_graph_query(graph, gpu, count, &a));
  CHECK(a.nodes == 4 && a.runs == 0 && a.sentences == 4);
  INVALID(tenon_graph_query(NULL, cpu, count, &a), "graph");
  INVALID(tenon_graph_query(graph, cpu, NULL, &a), "fn");
  tenon_graph_release(graph);
}

/* ---- contexts ---- */

typedef struct host {
  int loops, ranges, most, messages;
} host;

/* Backwards, to see that order does not matter. */
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

static void contexts(void) {
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
  program_options.num_threads = 1; /* the program's own number goes before the context's */
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

typedef struct heap {
  size_t blocks, bytes;
  int refuse;
} heap;
static void* heap_alloc(void* user, size_t bytes, size_t alignment) {
  heap* h = (heap*)user;
  if (h->refuse) return NULL;
  ++h->blocks, h->bytes += bytes;
  {
    /* C99 has no aligned allocation: the block's start stands before it. */
    char* block = (char*)malloc(bytes + alignment + sizeof(void*));
    char* start = block + sizeof(void*);
    start += (alignment - (uintptr_t)start % alignment) % alignment;
    memcpy(start - sizeof(void*), &block, sizeof(void*));
    return start;
  }
}
static void heap_free(void* user, void* block, size_t bytes) {
  heap* h = (heap*)user;
  void* start;
  memcpy(&start, (char*)block - sizeof(void*), sizeof(void*));
  --h->blocks, h->bytes -= bytes;
  free(start);
}

static void allocators(void) {
  heap h = {0, 0, 0};
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
  CHECK(h.blocks == 1); /* kept */
  tenon_program_release(program);
  CHECK(h.blocks == 0 && h.bytes == 0);
  tenon_context_release(context);
  tenon_graph_release(graph);
}

/* TENON_DUMP sends texts to the logger of the newest living context. */
static void loggers(void) {
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

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0); /* what failed is seen even if the next call crashes */
  /* The library reads TENON_DUMP when it is used; a second process has it from its start. */
  if (argc > 1 && !strcmp(argv[1], "--loggers")) {
    loggers();
  } else {
    versions(), run_and_stats(), strided(), freeze();
    bad_tensors(), bad_text(), prints(), struct_sizes(), nulls();
    ops(), build(), bad_build(), queries(), contexts(), allocators();
  }
  printf("%d checks, %d failures\n", checks, failures);
  return failures ? 1 : 0;
}
