/* A host framework in C99 that uses only the shared library and tenon.h: first what works, then every mistake of a host.
 * Each refusal must have its status and a sentence that names the mistake, and must leave outputs unchanged. */
#include "capi.h"

static int checks = 0, failures = 0;

void check_at(const char* file, int line, int good, const char* what) {
  ++checks;
  if (good) return;
  ++failures;
  printf("%s:%d: %s; last error: %s\n", file, line, what, tenon_last_error());
}

void refused_at(const char* file, int line, tenon_status got, tenon_status want, const char* words,
                const char* what) {
  char word[128];
  const char* message = tenon_last_error();
  ++checks;
  if (got != want) {
    ++failures;
    printf("%s:%d: %s: %s, not %s: %s\n", file, line, what, tenon_status_name(got), tenon_status_name(want),
           message);
    return;
  }
  while (*words) {
    size_t n = strcspn(words, "|");
    memcpy(word, words, n);
    word[n] = 0;
    if (!strstr(message, word)) {
      ++failures;
      printf("%s:%d: %s: no '%s' in: %s\n", file, line, what, word, message);
    }
    words += words[n] ? n + 1 : n;
  }
}

const tenon_dtype f32 = {2, 32, 1}, f64 = {2, 64, 1}, i64 = {0, 64, 1};

tenon_tensor tensor(void* data, tenon_dtype dtype, int32_t ndim, int64_t* shape) {
  tenon_tensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.type = 1;
  t.ndim = ndim;
  t.dtype = dtype;
  t.shape = shape;
  return t;
}

tenon_graph* parse(const char* text) {
  tenon_graph* graph = NULL;
  OK(tenon_graph_parse(text, TENON_NTS, &graph));
  return graph;
}

tenon_status make(const char* text, tenon_program** out) {
  tenon_graph* graph = NULL;
  tenon_status status = tenon_graph_parse(text, TENON_NTS, &graph);
  *out = NULL;
  if (status == TENON_OK) status = tenon_program_create(graph, NULL, NULL, 0, out);
  tenon_graph_release(graph); /* the program keeps what it needs */
  return status;
}

tenon_program* compile(const char* text) {
  tenon_program* program = NULL;
  OK(make(text, &program));
  return program;
}

const char kScale[] =
    "graph @scale(%x: f32[N,4], %w: f32[4]) {\n"
    "  %y = mul(%x, %w)\n"
    "  %z = add(%y, %x)\n"
    "  return %z\n"
    "}\n";

static void versions(void) {
  CHECK(tenon_version() == ((uint32_t)TENON_VERSION_MAJOR << 16 | TENON_VERSION_MINOR));
  CHECK(strstr(tenon_build_info(), tenon_version_string()) != NULL);
  CHECK(strstr(tenon_build_info(), "\nbuild ") != NULL);
  CHECK(strstr(tenon_build_info(), "reference") != NULL);
  CHECK(!strcmp(tenon_status_name(TENON_OK), "ok") && !strcmp(tenon_status_name(TENON_INTERNAL), "internal"));
  CHECK(!strcmp(tenon_status_name(-1), "unknown") && !strcmp(tenon_status_name(5), "unknown"));
  CHECK(tenon_graph_parse("x", TENON_NTS, NULL) == TENON_INVALID && *tenon_last_error());
  tenon_clear_error();
  CHECK(!*tenon_last_error());
  CHECK(sizeof(tenon_tensor) == 48); /* DLTensor on 64-bit machines */
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0); /* so that failures are printed even if the next call crashes */
  /* The library reads TENON_DUMP with its first use, so a second process has it from its start. */
  if (argc > 1 && !strcmp(argv[1], "--loggers")) {
    loggers();
  } else if (argc > 1 && !strcmp(argv[1], "--disk")) {
    disk_cache();
  } else if (argc > 2 && !strcmp(argv[1], "--device")) {
    device(argv[2]);
  } else if (argc > 2 && !strcmp(argv[1], "--no-device")) {
    no_device(argv[2]);
  } else {
    versions(), run_and_stats(), observers(), hosts(), strided(), freeze();
    bad_tensors(), bad_text(), prints(), struct_sizes(), every_struct_size(), nulls(), allocation_failures();
    ops(), build(), updates(), bad_build(), gradients(), built_gradients(), budget(), queries(), symbols(),
        param_files(), contexts(), allocators();
    sizes(), threads(), plan_limits(), program_options(), no_disk_cache();
  }
  printf("%d checks, %d failures\n", checks, failures);
  return failures ? 1 : 0;
}
