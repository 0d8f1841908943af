/* Programs on a GPU from C, with the mock driver (cuda_mock.cc), whose memory is host memory: streams, device memory of the host,
 * tensors and streams of the wrong device, a capture before the first run, a driver that fails. */
#include <dlfcn.h>

#include "capi.h"

enum { CUDA = 2 };
static const char kDouble[] =
    "graph @double(%x: f32[N,8]) {\n  %s = softmax(%x){axis=0}\n  %m = sum(%s){axes=[1], keepdims=true}\n"
    "  %y = add(%m, %x)\n  return %y\n}\n";

static void (*mock_fail)(const char* name, int nth, int code);
static void (*mock_capture)(void* stream, int status);
static void (*mock_stream_device)(void* stream, int device);
static const char* (*mock_leaks)(void);
static const char* (*mock_log)(void);

static void* symbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  CHECK(address != NULL);
  return address;
}

static void open_mock(const char* path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *f;
  CHECK(library != NULL);
  if (!library) exit(1);
  f = symbol(library, "tn_mock_fail"), memcpy(&mock_fail, &f, sizeof f);
  f = symbol(library, "tn_mock_capture"), memcpy(&mock_capture, &f, sizeof f);
  f = symbol(library, "tn_mock_stream_device"), memcpy(&mock_stream_device, &f, sizeof f);
  f = symbol(library, "tn_mock_leaks"), memcpy(&mock_leaks, &f, sizeof f);
  f = symbol(library, "tn_mock_log"), memcpy(&mock_log, &f, sizeof f);
}

/* An allocator of the host for device memory. */
typedef struct device_heap {
  int blocks, refuse;
  void* stream; /* of the last allocation */
} device_heap;
static char workspace[1 << 16] __attribute__((aligned(256)));
static void* device_alloc(void* user, tenon_device device, size_t bytes, void* stream, void** token) {
  device_heap* h = user;
  CHECK(device.type == CUDA && device.id == 0 && bytes > 0);
  h->stream = stream;
  if (h->refuse) return NULL;
  CHECK(h->blocks++ == 0 && bytes <= sizeof workspace); /* one run at a time */
  *token = h;
  return workspace;
}
static void device_free(void* user, tenon_device device, void* block, size_t bytes, void* stream,
                        void* token) {
  device_heap* h = user;
  CHECK(device.type == CUDA && bytes > 0 && token == h && stream == h->stream && block == workspace);
  --h->blocks;
}

static tenon_status create(const char* text, tenon_context* context, int freeze, tenon_program** program) {
  tenon_graph* graph = parse(text);
  tenon_program_options options;
  tenon_status status;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.context = context;
  options.freeze = freeze;
  options.device.type = CUDA;
  status = tenon_program_create(graph, &options, NULL, 0, program);
  tenon_graph_release(graph);
  return status;
}

static float x[4][8] __attribute__((aligned(16))), y[4][8] __attribute__((aligned(16)));
static int64_t shape[2] = {4, 8};
static tenon_tensor tx, ty;
static const tenon_tensor *in[1] = {&tx}, *out[1] = {&ty};
static tenon_program* program;
#define RUN(stream) tenon_program_run_on(program, in, 1, out, 1, stream)

static void right(void) {
  int i, j, k, good = 1;
  for (i = 0; i < 4; ++i)
    for (j = 0; j < 8; ++j) {
      double sum = 0;
      for (k = 0; k < 8; ++k) sum += 0.25; /* all rows are equal */
      good = good && y[i][j] - sum - x[i][j] < 1e-5 && x[i][j] + sum - y[i][j] < 1e-5;
    }
  CHECK(good);
  memset(y, 0, sizeof y);
}

void device(const char* mock) {
  void *stream = (void*)7, *other = (void*)9;
  device_heap heap = {0, 0, NULL};
  tenon_context_options given;
  tenon_context* context;
  tenon_graph* graph;
  tenon_program* none;
  tenon_device cuda = {CUDA, 0};
  int i, before;
  open_mock(mock);
  for (i = 0; i < 32; ++i) x[i / 8][i % 8] = (float)(i % 8);
  tx = tensor(x, f32, 2, shape), ty = tensor(y, f32, 2, shape);
  tx.device = ty.device = cuda;

  memset(&given, 0, sizeof given);
  given.struct_size = sizeof given;
  given.device_alloc = device_alloc;
  INVALID(tenon_context_create(&given, &context), "device_alloc and device_free go together");
  given.device_free = device_free;
  given.device_allocator_user = &heap;
  OK(tenon_context_create(&given, &context));

  /* First with the driver's memory, then with the host's. */
  OK(create(kDouble, NULL, 0, &program));
  OK(RUN(stream));
  right();
  CHECK(strstr(mock_log(), "cuMemAllocFromPoolAsync") != NULL);
  tenon_program_release(program);
  OK(create(kDouble, context, 0, &program));
  OK(RUN(stream));
  right();
  CHECK(heap.stream == stream && heap.blocks == 0);
  OK(tenon_program_run(program, in, 1, out, 1));
  right();
  CHECK(heap.stream == NULL);

  heap.refuse = 1;
  REFUSED(RUN(stream), TENON_ENVIRONMENT, "no|bytes on device 0");
  heap.refuse = 0;
  before = heap.blocks;
  for (i = 1; i < 4; ++i) {
    mock_fail("cuLaunchKernel", i, 719);
    if (RUN(stream) != TENON_OK) CHECK(strstr(tenon_last_error(), "CUDA_ERROR_LAUNCH_FAILED (719)") != NULL);
    mock_fail("cuLaunchKernel", 0, 0);
    CHECK(heap.blocks == before);
  }
  OK(RUN(stream));
  right();

  /* Tensors on other devices. */
  tx.device.id = 1;
  INVALID(RUN(stream), "input %x|device 1 of type 2|device 0 of type 2");
  tx.device.type = 1, tx.device.id = 0;
  INVALID(RUN(stream), "input %x|the CPU|device 0 of type 2");
  tx.device = cuda, ty.device.type = 1;
  INVALID(RUN(stream), "output %y|the CPU");
  ty.device = cuda;
  mock_stream_device(other, 1);
  INVALID(RUN(other), "stream|another device");
  REFUSED(tenon_program_run_with(program, in, 1, out, 1, NULL), TENON_UNSUPPORTED, "memory of all outputs");

  /* A capture of sizes that have run, and of new ones. */
  mock_capture(stream, 1);
  OK(RUN(stream));
  shape[0] = 3;
  REFUSED(RUN(stream), TENON_ENVIRONMENT, "captures|run once");
  mock_capture(stream, 0);
  OK(RUN(stream));
  shape[0] = 4;
  OK(RUN(stream));
  right();

  UNSUPPORTED(create(kDouble, NULL, 1, &none), "CPU only");
  UNSUPPORTED(create("graph @s(%n: i64[] = N, %x: f32[N]) {\n  %f = cast(%n){dtype=f32}\n  %y = mul(%x, %f)\n"
                     "  return %y\n}\n",
                     NULL, 0, &none),
              "%n defines a symbol");
  UNSUPPORTED(create("graph @m(%x: f32[N,4], %y: f32[4,5]) {\n  %z = matmul(%x, %y)\n  return %z\n}\n", NULL,
                     0, &none),
              "%z|matmul");
  graph = parse(kDouble);
  {
    tenon_program_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.device.type = CUDA, options.device.id = 5;
    INVALID(tenon_program_create(graph, &options, NULL, 0, &none), "there is no GPU 5");
    options.device.type = 99, options.device.id = 0;
    UNSUPPORTED(tenon_program_create(graph, &options, NULL, 0, &none), "no back end|99");
  }
  tenon_graph_release(graph);

  tenon_program_release(program);
  tenon_context_release(context);
  CHECK(heap.blocks == 0);

  /* A program on the CPU takes no stream. */
  program = compile(kDouble);
  tx.device.type = ty.device.type = 1;
  INVALID(RUN(stream), "stream|CPU");
  OK(RUN(NULL));
  right();
  tenon_program_release(program);
}

void no_device(const char* why) {
  tenon_program* none = NULL;
  REFUSED(create(kDouble, NULL, 0, &none), TENON_ENVIRONMENT, why);
  CHECK(none == NULL);
  program = compile(kDouble);
  tenon_program_release(program);
}
