/* Eight threads that run, compile, evict, query and release the same handles at the same time. Any of them may release last.
 * Mainly for ThreadSanitizer and AddressSanitizer. */
#include <pthread.h>

#include "capi.h"

enum { kThreads = 8, kRounds = 60 };

typedef struct shared {
  tenon_context* context;
  tenon_graph* graph;
  tenon_program* program;
  heap* memory;
} shared;
typedef struct worker {
  shared handles; /* the worker owns a reference of each */
  unsigned number;
  int wrong;
} worker;

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static void* locked_alloc(void* user, size_t bytes, size_t alignment) {
  void* block;
  pthread_mutex_lock(&heap_lock);
  block = heap_alloc(user, bytes, alignment);
  pthread_mutex_unlock(&heap_lock);
  return block;
}
static void locked_free(void* user, void* block, size_t bytes) {
  pthread_mutex_lock(&heap_lock);
  heap_free(user, block, bytes);
  pthread_mutex_unlock(&heap_lock);
}
static void quiet(void* user, const char* topic, const char* message) {
  (void)user, (void)topic, (void)message;
}

/* Softmax of equal elements: each result is 1/8. */
static int run_one(tenon_program* program, int64_t rows) {
  float x[160], y[160];
  int64_t shape[2], i;
  int wrong = 0;
  tenon_tensor tx = tensor(x, f32, 2, shape), ty = tensor(y, f32, 2, shape);
  const tenon_tensor *in[1], *out[1];
  shape[0] = rows, shape[1] = 8;
  in[0] = &tx, out[0] = &ty;
  for (i = 0; i < 8 * rows; ++i) x[i] = 0.5f;
  if (tenon_program_run(program, in, 1, out, 1) != TENON_OK) return 1;
  for (i = 0; i < 8 * rows; ++i) wrong |= !(y[i] > 0.1249f && y[i] < 0.1251f);
  return wrong;
}

static void* work(void* arg) {
  worker* w = (worker*)arg;
  shared h = w->handles;
  tenon_program_options options;
  tenon_context_options plain;
  unsigned i;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.context = h.context, options.max_plans = 2;
  memset(&plain, 0, sizeof plain);
  plain.struct_size = sizeof plain;
  plain.log = quiet;
  for (i = 0; i < kRounds; ++i) {
    const int64_t rows = 1 + (i * 7 + w->number) % 20;
    w->wrong += run_one(h.program, rows);
    switch ((i + w->number) % 8) {
      case 0: { /* makes a program and releases it at once */
        tenon_program* own = NULL;
        w->wrong += tenon_program_create(h.graph, &options, NULL, 0, &own) != TENON_OK || run_one(own, rows);
        tenon_program_release(own);
        break;
      }
      case 1: w->wrong += tenon_program_set_limits(h.program, 1 + i % 5, 0) != TENON_OK; break;
      case 2: {
        tenon_program_stats stats;
        stats.struct_size = sizeof stats;
        w->wrong += tenon_program_get_stats(h.program, &stats) != TENON_OK || stats.plan_misses < 1;
        break;
      }
      case 3: {
        const char* text = NULL;
        size_t length = 0;
        w->wrong += tenon_program_explain(h.program, (int32_t)(i % 2), &text, &length) != TENON_OK ||
                    strlen(text) != length;
        break;
      }
      case 4: { /* makes and releases contexts with loggers */
        tenon_context* own = NULL;
        w->wrong += tenon_context_create(&plain, &own) != TENON_OK;
        tenon_context_release(own);
        break;
      }
      case 5: { /* the last error belongs to this thread */
        tenon_graph* none = NULL;
        char text[40];
        snprintf(text, sizeof text, "graph @f%u(", w->number);
        tenon_clear_error();
        w->wrong += tenon_graph_parse(text, TENON_NTS, &none) != TENON_INVALID || !*tenon_last_error();
        break;
      }
      case 6: {
        tenon_program_retain(h.program), tenon_graph_retain(h.graph), tenon_context_retain(h.context);
        tenon_program_release(h.program), tenon_graph_release(h.graph), tenon_context_release(h.context);
        break;
      }
      default: {
        char text[600];
        size_t length = 0;
        tenon_cache_stats stats;
        stats.struct_size = sizeof stats;
        w->wrong += tenon_graph_print(h.graph, text, sizeof text, &length) != TENON_OK;
        w->wrong += tenon_cache_get_stats(&stats) != TENON_OK;
      }
    }
  }
  tenon_context_release(h.context);
  tenon_graph_release(h.graph);
  tenon_program_release(h.program);
  return NULL;
}

void threads(void) {
  heap memory = {0, 0, 0, 0, SIZE_MAX, 0};
  int round, t;
  for (round = 0; round < 3; ++round) {
    worker workers[kThreads];
    pthread_t ids[kThreads];
    shared h;
    tenon_context_options host;
    tenon_program_options options;
    memset(&host, 0, sizeof host);
    host.struct_size = sizeof host;
    host.alloc = locked_alloc, host.free = locked_free, host.allocator_user = &memory;
    h.memory = &memory;
    OK(tenon_context_create(&host, &h.context));
    h.graph = parse(
        "graph @f(%x: f32[N,8]) {\n  %t = transpose(%x){perm=[1,0]}\n  %m = matmul(%x, %t)\n"
        "  %a = matmul(%m, %x)\n  %b = softmax(%a){axis=1}\n  return %b\n}\n");
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.context = h.context, options.max_plans = 3;
    OK(tenon_program_create(h.graph, &options, NULL, 0, &h.program));
    for (t = 0; t < kThreads; ++t) {
      workers[t].handles = h, workers[t].number = (unsigned)t, workers[t].wrong = 0;
      tenon_context_retain(h.context), tenon_graph_retain(h.graph), tenon_program_retain(h.program);
    }
    for (t = 0; t < kThreads; ++t) CHECK(pthread_create(&ids[t], NULL, work, &workers[t]) == 0);
    /* From here on only the workers own references. */
    tenon_program_release(h.program), tenon_graph_release(h.graph), tenon_context_release(h.context);
    for (t = 0; t < kThreads; ++t) {
      CHECK(pthread_join(ids[t], NULL) == 0);
      CHECK(workers[t].wrong == 0);
    }
    CHECK(memory.blocks == 0 && memory.bytes == 0); /* the last release freed everything */
  }
}
