/* Graphs from text and node by node, the table of ops, queries: what works and what is refused. */
#include "capi.h"

/* ---- graphs from text ---- */

void bad_text(void) {
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
       "2:8|3:12"}, /* all errors at once */
  };
  size_t i;
  for (i = 0; i < sizeof cases / sizeof *cases; ++i) {
    tenon_graph* graph = (tenon_graph*)&i;
    INVALID(tenon_graph_parse(cases[i].text, TENON_NTS, &graph), cases[i].words);
    CHECK(graph == NULL);
  }
  /* Text that is cut anywhere, with and without a terminating zero, gives a status and never crashes. */
  for (i = 0; i + 1 < strlen(kScale); ++i) {
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

void prints(void) {
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

/* ---- ops ---- */

void ops(void) {
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
  CHECK(!info.to_bool && info.fault == TENON_FAULT_NEVER);
  OK(tenon_op_describe("lt", &info));
  CHECK(info.to_bool == 1 && info.fault == TENON_FAULT_NEVER);
  OK(tenon_op_describe("remainder", &info));
  CHECK(!info.to_bool && info.fault == TENON_FAULT_INTEGER);
  OK(tenon_op_describe("gather", &info));
  CHECK(!info.to_bool && info.fault == TENON_FAULT_INDEX);
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
  REGISTER(desc.body = "graph @b(%x: f32[N]) {\n  %y = neg(%x)\n  return %y updates %x\n}\n", "update");
  REGISTER(desc.body = "graph @b(%x: f32[2*N]) {\n  return %x\n}\n", "N");
  desc.body = "graph @b(%x: f32[N]) {\n  assume N in [2, 8]\n  return %x\n}\n";
  UNSUPPORTED(tenon_op_register(&desc), "N in [2, 8]");
  REGISTER(desc.body = NULL, "NULL");
  REGISTER((desc.body = "graph @b(%x: f32[N]) {\n  return %x\n}\n", desc.doc = NULL), "NULL");
  REGISTER((desc.doc = "x", desc.struct_size = 0), "struct_size");
  CHECK(tenon_op_count() == n + 1);
}

/* ---- graphs step by step ---- */

void build(void) {
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
  five[0] = 50; /* the data was copied */
  ids[0] = x, ids[1] = c;
  OK(tenon_graph_add_node(graph, "add", ids, 2, NULL, "s", &y));
  OK(tenon_graph_add_node(graph, "sum", &y, 1, "axes=[1], keepdims=true", NULL, &w));
  ids[0] = y, ids[1] = w;
  OK(tenon_graph_add_node(graph, "div", ids, 2, "", "q", &y));
  {
    tenon_dtype dtype = {0, 0, 0};
    OK(tenon_graph_value_type(graph, w, &dtype, NULL, 0, &length));
    CHECK(length == 3 && dtype.code == 2 && dtype.bits == 32 && dtype.lanes == 1);
    OK(tenon_graph_value_type(graph, w, &dtype, text, sizeof text, &length));
    CHECK(!strcmp(text, "N,1"));
    INVALID(tenon_graph_value_type(graph, w, &dtype, text, 3, &length), "4 bytes, given 3");
    INVALID(tenon_graph_value_type(graph, 99, &dtype, text, sizeof text, &length), "99");
    INVALID(tenon_graph_value_type(graph, w, NULL, text, sizeof text, &length), "NULL");
  }
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

/* A counter: each run adds to the total, in the memory of the input. */
void updates(void) {
  tenon_graph* graph = NULL;
  tenon_program* program = NULL;
  tenon_value ids[2], y;
  float total[2] = {0, 10}, step[2] = {1, 2}, out_data[2];
  int64_t two[1] = {2};
  tenon_tensor t = tensor(total, f32, 1, two), s = tensor(step, f32, 1, two),
               o = tensor(out_data, f32, 1, two);
  const tenon_tensor *in[2], *out[1];
  in[0] = &t, in[1] = &s, out[0] = &o;
  OK(tenon_graph_create("count", &graph));
  OK(tenon_graph_add_input(graph, "total", f32, "N", NULL, &ids[0]));
  OK(tenon_graph_add_input(graph, "step", f32, "N", NULL, &ids[1]));
  OK(tenon_graph_add_node(graph, "add", ids, 2, NULL, "sum", &y));
  OK(tenon_graph_set_outputs(graph, &ids[0], 1, NULL));
  OK(tenon_graph_add_update(graph, ids[0], y));
  OK(tenon_graph_finalize(graph));
  INVALID(tenon_graph_add_update(graph, ids[0], y), "finished");
  OK(tenon_program_create(graph, NULL, NULL, 0, &program));
  OK(tenon_program_run(program, in, 2, out, 1));
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(total[0] == 2 && total[1] == 14);
  CHECK(out_data[0] == 1 && out_data[1] == 12); /* the total before the second run */
  INVALID(tenon_program_run(program, in, 2, out, 2), "1 output|2");
  tenon_program_release(program);
  tenon_graph_release(graph);
  OK(tenon_graph_create("wrong", &graph));
  OK(tenon_graph_add_input(graph, "x", f32, "N", NULL, &ids[0]));
  OK(tenon_graph_add_node(graph, "exp", ids, 1, NULL, "y", &y));
  INVALID(tenon_graph_add_update(graph, y, y), "%y|no input");
  INVALID(tenon_graph_add_update(graph, 77, y), "77");
  INVALID(tenon_graph_add_update(graph, ids[0], 77), "77");
  INVALID(tenon_graph_add_update(NULL, ids[0], y), "NULL");
  tenon_graph_release(graph);
}

void bad_build(void) {
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
  INVALID(tenon_graph_finalize(graph), "output"); /* there is no output yet; the graph stays usable */
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
  /* A node that reads a failed node is not reported again. */
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

void queries(void) {
  asked a = {0, 0, 0};
  tenon_device cpu = {1, 0}, gpu = {2, 0}, unknown = {99, 0};
  tenon_graph* graph = parse(
      "graph @f(%x: f32[N,4]) {\n  %t = transpose(%x){perm=[1,0]}\n  %s = softmax(%t){axis=-1}\n"
      "  %m = matmul(%s, %x)\n  %y = exp(%m)\n  return %y\n}\n");
  OK(tenon_graph_query(graph, cpu, count, &a));
  CHECK(a.nodes == 4 && a.runs == 4 && a.sentences == 4);
  a.nodes = a.runs = a.sentences = 0;
  OK(tenon_graph_query(graph, gpu, count, &a));
  CHECK(a.nodes == 4 && a.runs >= 3 &&
        a.sentences == 4); /* the product needs a library, which may be missing */
  a.nodes = a.runs = a.sentences = 0;
  OK(tenon_graph_query(graph, unknown, count, &a));
  CHECK(a.nodes == 4 && a.runs == 0 && a.sentences == 4);
  INVALID(tenon_graph_query(NULL, cpu, count, &a), "graph");
  INVALID(tenon_graph_query(graph, cpu, NULL, &a), "fn");
  tenon_graph_release(graph);
}
