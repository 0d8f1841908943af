/* Gradients through the C ABI: of a finished graph and of a graph under construction, run as programs, and refusals. */
#include "capi.h"

static const char kSquares[] =
    "graph @f(%x: f32[N], %w: f32[], %i: i64[N]) {\n  %a = mul(%x, %w)\n  %y = square(%a)\n  %n = neg(%i)\n"
    "  return %y, %n\n}\n";

static void run4(tenon_graph* graph, float* x, float* w, int64_t* i, float* head, tenon_tensor** outputs,
                 size_t n) {
  int64_t two[1] = {2};
  tenon_tensor tx = tensor(x, f32, 1, two), tw = tensor(w, f32, 0, NULL), ti = tensor(i, i64, 1, two),
               th = tensor(head, f32, 1, two);
  const tenon_tensor *in[4], *out[4];
  tenon_program* program = NULL;
  size_t k;
  in[0] = &tx, in[1] = &tw, in[2] = &ti, in[3] = &th;
  for (k = 0; k < n; ++k) out[k] = outputs[k];
  OK(tenon_program_create(graph, NULL, NULL, 0, &program));
  OK(tenon_program_run(program, in, head ? 4 : 3, out, n));
  tenon_program_release(program);
}

/* Of the sum of (w x)^2: 2 w^2 x by x, 2 w x^2 by w. */
void gradients(void) {
  tenon_graph *graph = parse(kSquares), *made = NULL;
  tenon_gradient_options options;
  float x[2] = {1, 2}, w = 3, head[2] = {1, 10}, y[2], dx[2], dw;
  int64_t i[2] = {0, 0}, n[2], two[1] = {2};
  int32_t second[1] = {1}, first[1] = {0}, third[1] = {2};
  tenon_tensor ty = tensor(y, f32, 1, two), tn = tensor(n, i64, 1, two), tdx = tensor(dx, f32, 1, two),
               tdw = tensor(&dw, f32, 0, NULL), *out[4];
  OK(tenon_graph_gradient(graph, NULL, &made)); /* by x and w, of y */
  out[0] = &tdx, out[1] = &tdw;
  run4(made, x, &w, i, NULL, out, 2);
  CHECK(dx[0] == 18 && dx[1] == 36 && dw == 30);
  tenon_graph_release(made);

  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.targets = first, options.n_targets = 1;
  options.wrt = second, options.n_wrt = 1;
  options.heads = 1, options.keep_outputs = 1;
  OK(tenon_graph_gradient(graph, &options, &made));
  out[0] = &ty, out[1] = &tn, out[2] = &tdw;
  run4(made, x, &w, i, head, out, 3);
  CHECK(y[0] == 9 && y[1] == 36 && dw == 6 * 1 + 10 * 6 * 4);
  tenon_graph_release(made);

  made = NULL;
  options.wrt = third;
  INVALID(tenon_graph_gradient(graph, &options, &made), "%i|i64[N]|only floats");
  options.wrt = second, options.targets = second;
  INVALID(tenon_graph_gradient(graph, &options, &made), "%n|i64[N]");
  options.targets = third;
  INVALID(tenon_graph_gradient(graph, &options, &made), "no output 2");
  options.struct_size = 3;
  INVALID(tenon_graph_gradient(graph, &options, &made), "struct_size");
  INVALID(tenon_graph_gradient(NULL, NULL, &made), "NULL");
  INVALID(tenon_graph_gradient(graph, NULL, NULL), "NULL");
  CHECK(made == NULL);
  tenon_graph_release(graph);
  graph = parse("graph @f(%x: f32[N]) {\n  %y = airy_ai(%x)\n  return %y\n}\n");
  UNSUPPORTED(tenon_graph_gradient(graph, NULL, &made), "%y|airy_ai");
  tenon_graph_release(graph);
}

/* A chain of layers under a budget: fewer bytes and the same numbers. */
void budget(void) {
  enum { LAYERS = 12, N = 64 };
  static float x[N * N], head[2][N * N];
  char text[4096] = "graph @f(%x: f32[64,64]) {\n  %w = stop_gradient(%x)\n  %t0 = tanh(%x)\n", line[200];
  tenon_graph *graph, *made = NULL;
  tenon_program_options options;
  tenon_program_stats stats[2];
  int64_t shape[2] = {N, N};
  tenon_tensor tx = tensor(x, f32, 2, shape), ty;
  const tenon_tensor *in[1], *out[1];
  int i, round;
  for (i = 1; i < LAYERS; ++i) {
    sprintf(line, "  %%m%d = matmul(%%t%d, %%w)\n  %%t%d = tanh(%%m%d)\n", i, i - 1, i, i);
    strcat(text, line);
  }
  sprintf(line, "  return %%t%d\n}\n", LAYERS - 1);
  strcat(text, line);
  for (i = 0; i < N * N; ++i) x[i] = (float)(i % 17) / 100 - 0.08f;
  graph = parse(text);
  OK(tenon_graph_gradient(graph, NULL, &made));
  in[0] = &tx, out[0] = &ty;
  for (round = 0; round < 2; ++round) {
    tenon_program* program = NULL;
    const char* why = NULL;
    size_t length;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.memory_budget_bytes = round;
    OK(tenon_program_create(made, &options, NULL, 0, &program));
    ty = tensor(head[round], f32, 2, shape);
    OK(tenon_program_run(program, in, 1, out, 1));
    stats[round].struct_size = sizeof *stats;
    OK(tenon_program_get_stats(program, &stats[round]));
    OK(tenon_program_explain(program, 0, &why, &length));
    CHECK((strstr(why, "runs again because keeping its result takes") != NULL) == round);
    tenon_program_release(program);
  }
  CHECK(stats[1].workspace_bytes < stats[0].workspace_bytes);
  CHECK(!memcmp(head[0], head[1], sizeof *head));
  options.memory_budget_bytes = -1;
  {
    tenon_program* program = NULL;
    INVALID(tenon_program_create(made, &options, NULL, 0, &program), "memory_budget_bytes");
  }
  tenon_graph_release(graph), tenon_graph_release(made);
}

void built_gradients(void) {
  tenon_graph* graph = NULL;
  tenon_value x, w, i, y, z, ids[2], got[2], heads[2];
  float in_x[2] = {1, 2}, in_w = 3, dx[2], dw;
  int64_t in_i[2] = {0, 0}, two[1] = {2};
  tenon_tensor tdx = tensor(dx, f32, 1, two), tdw = tensor(&dw, f32, 0, NULL), *out[2];
  OK(tenon_graph_create("built", &graph));
  OK(tenon_graph_add_input(graph, "x", f32, "N", NULL, &x));
  OK(tenon_graph_add_input(graph, "w", f32, "", NULL, &w));
  OK(tenon_graph_add_input(graph, "i", i64, "N", NULL, &i));
  ids[0] = x, ids[1] = w;
  OK(tenon_graph_add_node(graph, "mul", ids, 2, NULL, "y", &y));
  OK(tenon_graph_add_node(graph, "sum", &y, 1, "axes=[]", "z", &z));
  /* y has ones for its head, z has w: (1 + w) w by x; the sum of (1 + w) x by w. */
  ids[0] = y, ids[1] = z;
  heads[0] = TENON_NO_VALUE, heads[1] = w;
  got[0] = x, got[1] = w;
  OK(tenon_graph_add_gradients(graph, ids, 2, heads, got, 2, got)); /* out may be wrt */
  OK(tenon_graph_set_outputs(graph, got, 2, NULL));
  OK(tenon_graph_finalize(graph));
  out[0] = &tdx, out[1] = &tdw;
  run4(graph, in_x, &in_w, in_i, NULL, out, 2);
  CHECK(dx[0] == 12 && dx[1] == 12 && dw == 12);
  INVALID(tenon_graph_add_gradients(graph, &y, 1, NULL, &x, 1, got), "finished");
  CHECK(got[0] == TENON_NO_VALUE);
  tenon_graph_release(graph);

  OK(tenon_graph_create("bad", &graph));
  OK(tenon_graph_add_input(graph, "x", f32, "N", NULL, &x));
  OK(tenon_graph_add_input(graph, "i", i64, "N", NULL, &i));
  INVALID(tenon_graph_add_gradients(NULL, &x, 1, NULL, &x, 1, got), "NULL");
  INVALID(tenon_graph_add_gradients(graph, NULL, 1, NULL, &x, 1, got), "NULL");
  INVALID(tenon_graph_add_gradients(graph, &x, 1, NULL, &x, 1, NULL), "NULL");
  INVALID(tenon_graph_add_gradients(graph, &x, 1, NULL, &i, 1, got), "%i|only floats");
  CHECK(got[0] == TENON_NO_VALUE);
  INVALID(tenon_graph_add_gradients(graph, &x, 1, &i, &x, 1, got), "the head %i|i64[N]|%x|f32[N]");
  z = 99;
  INVALID(tenon_graph_add_gradients(graph, &z, 1, NULL, &x, 1, got), "no value 99");
  INVALID(tenon_graph_add_gradients(graph, &x, 1, NULL, &z, 1, got), "no value 99");
  INVALID(tenon_graph_finalize(graph), "only floats|no value 99");
  tenon_graph_release(graph);
}
