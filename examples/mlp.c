/* The C interface: a graph as text, a program with packed weights, runs of several batch sizes.
 * By hand: cc mlp.c $(pkg-config --cflags --libs tenon) -Wl,-rpath,$(pkg-config --variable=libdir tenon) -lm */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { kIn = 8, kOut = 16, kMostRows = 5 };

static const char kGraph[] =
    "graph @mlp(%x: f32[N,8], %w: f32[8,16] param, %b: f32[16] param) {\n"
    "  %h = matmul(%x, %w)\n"
    "  %s = add(%h, %b)\n"
    "  %y = gelu(%s)\n"
    "  return %y\n"
    "}\n";

static void check(tenon_status status) {
  if (status == TENON_OK) return;
  fprintf(stderr, "%s: %s\n", tenon_status_name(status), tenon_last_error());
  exit(1);
}

/* A dense tensor of 32-bit floats on the CPU. The shape is borrowed, as the data. */
static tenon_tensor tensor(float* data, int64_t* shape, int32_t ndim) {
  tenon_tensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.type = 1;
  t.ndim = ndim;
  t.dtype.code = 2, t.dtype.bits = 32, t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* Prints which back end takes a node. Nothing is compiled yet: a framework keeps the nodes that no back end takes. */
static void print_answer(void* user, tenon_value node, const char* name, const char* op, const char* backend,
                         const char* why) {
  (void)user, (void)node;
  printf("%%%s = %s: %s (%s)\n", name, op, *backend ? backend : "nobody", why);
}

static tenon_program* compile(const tenon_tensor* w, const tenon_tensor* b) {
  const tenon_tensor* const params[] = {NULL, w, b}; /* x changes from run to run */
  const tenon_device cpu = {1, 0};
  tenon_program_options options;
  tenon_graph* graph = NULL;
  tenon_program* program = NULL;
  check(tenon_graph_parse(kGraph, TENON_NTS, &graph));
  check(tenon_graph_query(graph, cpu, print_answer, NULL));
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.freeze = 1;
  check(tenon_program_create(graph, &options, params, 3, &program));
  tenon_graph_release(graph);
  return program;
}

int main(void) {
  float x[kMostRows * kIn], w[kIn * kOut], b[kOut], y[kMostRows * kOut];
  int64_t w_shape[] = {kIn, kOut}, b_shape[] = {kOut}, x_shape[] = {0, kIn}, y_shape[] = {0, kOut};
  const tenon_tensor w_tensor = tensor(w, w_shape, 2), b_tensor = tensor(b, b_shape, 1);
  const tenon_tensor x_tensor = tensor(x, x_shape, 2), y_tensor = tensor(y, y_shape, 2);
  const tenon_tensor* const inputs[] = {&x_tensor, NULL, NULL}; /* frozen inputs are not given again */
  const tenon_tensor* const outputs[] = {&y_tensor};
  float worst = 0;
  for (int i = 0; i < kMostRows * kIn; ++i) x[i] = sinf((float)i);
  for (int i = 0; i < kIn * kOut; ++i) w[i] = cosf((float)i);
  for (int i = 0; i < kOut; ++i) b[i] = (float)i / kOut;

  tenon_program* program = compile(&w_tensor, &b_tensor);
  for (int64_t rows = 1; rows <= kMostRows; ++rows) { /* a new size costs a plan; nothing is compiled */
    x_shape[0] = y_shape[0] = rows;
    check(tenon_program_run(program, inputs, 3, outputs, 1));
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < kOut; ++c) {
        float sum = b[c];
        for (int k = 0; k < kIn; ++k) sum += x[r * kIn + k] * w[k * kOut + c];
        worst = fmaxf(worst, fabsf(y[r * kOut + c] - 0.5F * sum * (1 + erff(sum * sqrtf(0.5F)))));
      }
  }
  tenon_program_release(program);
  printf("tenon %s: 1 to %d rows, largest difference %g\n", tenon_version_string(), kMostRows, worst);
  return worst < 1e-5F ? 0 : 1;
}
