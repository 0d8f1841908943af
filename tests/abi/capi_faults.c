/* The mistakes of a host except for those in tensors. */
#include "capi.h"

/* ---- struct_size ---- */

/* A structure with space behind it. */
typedef union any_struct {
  size_t struct_size;
  tenon_program_options program;
  tenon_context_options context;
  tenon_program_stats stats;
  tenon_op_info info;
  tenon_op_desc desc;
  tenon_input_options input;
  tenon_cache_stats cache;
  unsigned char bytes[256];
} any_struct;

void struct_sizes(void) {
  tenon_graph* graph = parse(kScale);
  tenon_program* program = NULL;
  tenon_context* context = NULL;
  any_struct r;
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
      sizeof(size_t); /* the oldest caller, which knows no other field: all others have defaults */
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
  OK(CREATE); /* the byte is behind the structure */
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

/* Structures that a caller passes, each in a call that succeeds if no field is set. */
static tenon_graph* scale;
static tenon_status give_program(any_struct* r) {
  tenon_program* p = NULL;
  tenon_status status = tenon_program_create(scale, &r->program, NULL, 0, &p);
  CHECK((status == TENON_OK) == (p != NULL));
  tenon_program_release(p);
  return status;
}
static tenon_status give_context(any_struct* r) {
  tenon_context* c = NULL;
  tenon_status status = tenon_context_create(&r->context, &c);
  CHECK((status == TENON_OK) == (c != NULL));
  tenon_context_release(c);
  return status;
}
static tenon_status give_input(any_struct* r) {
  tenon_graph* g = NULL;
  tenon_value v = 0;
  tenon_status status;
  OK(tenon_graph_create(NULL, &g));
  status = tenon_graph_add_input(g, "x", f32, "4", &r->input, &v);
  CHECK((status == TENON_OK) == (v != TENON_NO_VALUE));
  tenon_graph_release(g);
  return status;
}
/* Structures that the library fills. */
static tenon_program* filled;
static tenon_status take_stats(any_struct* r) { return tenon_program_get_stats(filled, &r->stats); }
static tenon_status take_info(any_struct* r) { return tenon_op_describe("exp", &r->info); }
static tenon_status take_cache(any_struct* r) { return tenon_cache_get_stats(&r->cache); }

void every_struct_size(void) {
  static const struct {
    const char* name;
    size_t size;
    tenon_status (*call)(any_struct*);
    int taken;
  } cases[] = {
      {"tenon_program_options", sizeof(tenon_program_options), give_program, 0},
      {"tenon_context_options", sizeof(tenon_context_options), give_context, 0},
      {"tenon_input_options", sizeof(tenon_input_options), give_input, 0},
      {"tenon_program_stats", sizeof(tenon_program_stats), take_stats, 1},
      {"tenon_op_info", sizeof(tenon_op_info), take_info, 1},
      {"tenon_cache_stats", sizeof(tenon_cache_stats), take_cache, 1},
  };
  const size_t known_to_all = sizeof(size_t);
  size_t i, size, at;
  any_struct r;
  scale = parse(kScale);
  filled = compile(kScale);
  for (i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const unsigned char fill = cases[i].taken ? 0xAB : 0;
    char words[100];
    memset(&r, fill, sizeof r);
    snprintf(words, sizeof words, "%s|struct_size", cases[i].name);
    for (size = 0; size < known_to_all; ++size) {
      r.struct_size = size;
      INVALID(cases[i].call(&r), words);
    }
    r.struct_size = 4097;
    INVALID(cases[i].call(&r), words);
    r.struct_size = SIZE_MAX;
    INVALID(cases[i].call(&r), words);
    /* A caller of any version: bytes behind its structure are neither read nor written. */
    for (size = known_to_all; size <= sizeof r; ++size) {
      memset(&r, fill, sizeof r);
      if (!cases[i].taken) memset(r.bytes + size, 0xAB, sizeof r - size);
      r.struct_size = size;
      OK(cases[i].call(&r));
      CHECK(r.struct_size == size);
      for (at = size; at < sizeof r; ++at) CHECK(r.bytes[at] == 0xAB);
      if (cases[i].taken) /* fields that this library does not know become zero */
        for (at = cases[i].size; at < size; ++at) CHECK(r.bytes[at] == 0);
    }
    if (cases[i].taken) continue;
    /* A field of a later version is refused if any of its bytes is set. */
    for (at = cases[i].size; at < cases[i].size + 24; ++at) {
      memset(&r, 0, sizeof r);
      r.struct_size = cases[i].size + 24;
      r.bytes[at] = 1;
      UNSUPPORTED(cases[i].call(&r), cases[i].name);
    }
  }
  tenon_program_release(filled);
  tenon_graph_release(scale);
  /* An op lives as long as the process, so only refusals of its description are tested. */
  memset(&r, 0, sizeof r);
  r.struct_size = 7;
  INVALID(tenon_op_register(&r.desc), "tenon_op_desc|struct_size 7");
  r.struct_size = sizeof r.desc + 8, r.bytes[sizeof r.desc + 7] = 1;
  UNSUPPORTED(tenon_op_register(&r.desc), "tenon_op_desc");
  r.bytes[sizeof r.desc + 7] = 0;
  INVALID(tenon_op_register(&r.desc), "NULL"); /* it has no name */
}

void nulls(void) {
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

/* ---- memory ---- */

enum { kMostRows = 600 };
static float fx[kMostRows * 8], fy[kMostRows * 8], fw[64], fv[64];

/* The program needs memory between softmax and product; its params are folded. */
static const char kFolding[] =
    "graph @f(%x: f32[N,8], %w: f32[8,8] param, %v: f32[8,8] param) {\n  %a = mul(%w, %v)\n"
    "  %b = matmul(%a, %w)\n  %c = softmax(%x){axis=0}\n  %d = softmax(%c){axis=1}\n  %e = matmul(%d, %b)\n"
    "  %f = softmax(%e){axis=0}\n  %g = add(%f, %c)\n  return %g\n}\n";

static tenon_status run_folding(tenon_program* program, int64_t rows) {
  int64_t shape[2];
  tenon_tensor tx = tensor(fx, f32, 2, shape), ty = tensor(fy, f32, 2, shape);
  const tenon_tensor *in[3] = {NULL, NULL, NULL}, *out[1];
  shape[0] = rows, shape[1] = 8;
  in[0] = &tx, out[0] = &ty;
  return tenon_program_run(program, in, 3, out, 1);
}

static void fill_y(void) {
  size_t i;
  for (i = 0; i < kMostRows * 8; ++i) fy[i] = 77;
}
static int y_untouched(void) {
  size_t i, touched = 0;
  for (i = 0; i < kMostRows * 8; ++i) touched += fy[i] != 77;
  return touched == 0;
}
/* All rows are equal, so softmax over them, and the products with it, are 1 / rows. */
static int y_right(int64_t rows) {
  int64_t i, wrong = 0;
  float want = 2.0f / (float)rows;
  for (i = 0; i < 8 * rows; ++i) wrong += !(fy[i] > 0.999f * want && fy[i] < 1.001f * want);
  return wrong == 0;
}

typedef struct scene {
  tenon_graph* graph;
  tenon_program_options options;
  tenon_program* program;
  const tenon_tensor* params[3];
  int64_t rows;
} scene;
static tenon_status create(scene* s) {
  return tenon_program_create(s->graph, &s->options, s->params, 3, &s->program);
}
static tenon_status run_rows(scene* s) { return run_folding(s->program, s->rows); }
static tenon_status update(scene* s) { return tenon_program_update_params(s->program, s->params, 3); }

/* Lets the first allocation of `what` fail, then the second, and so on, until none is left; returns their number. After a
 * failure there are no more blocks than before (except for packed weights, which the program keeps), the outputs are
 * unchanged, and the program runs. */
static size_t fail_each(heap* h, scene* s, tenon_status (*what)(scene*)) {
  const size_t packed = what == run_rows ? 1 : 0;
  const size_t blocks = h->blocks + packed, bytes = h->bytes + packed * (64 << 10);
  size_t n;
  for (n = 0; n < 100; ++n) {
    tenon_status status;
    int failed;
    fill_y();
    h->asked = 0, h->fail_at = n;
    status = what(s);
    failed = h->asked > n;
    h->fail_at = SIZE_MAX;
    if (!failed) {
      CHECK(status == TENON_OK);
      return n;
    }
    CHECK(status == TENON_ENVIRONMENT && strstr(tenon_last_error(), "memory"));
    CHECK(y_untouched() && h->blocks <= blocks && h->bytes <= bytes);
    if (what == create) CHECK(s->program == NULL);
    if (what == update) {
      OK(run_folding(s->program, s->rows)); /* with the old params */
      CHECK(y_right(s->rows) && h->blocks == blocks && h->bytes == bytes);
    }
  }
  CHECK(n < 100);
  return n;
}

void allocation_failures(void) {
  heap h = {0, 0, 0, 0, SIZE_MAX, 0};
  tenon_context* context = NULL;
  tenon_context_options host;
  int64_t square[2] = {8, 8};
  tenon_tensor tw = tensor(fw, f32, 2, square), tv = tensor(fv, f32, 2, square);
  scene s;
  size_t i;
  for (i = 0; i < kMostRows * 8; ++i) fx[i] = 0.5f;
  for (i = 0; i < 64; ++i) fw[i] = 0.01f * (float)i, fv[i] = 1;
  memset(&host, 0, sizeof host);
  host.struct_size = sizeof host;
  host.alloc = heap_alloc, host.free = heap_free, host.allocator_user = &h;
  OK(tenon_context_create(&host, &context));
  memset(&s, 0, sizeof s);
  s.graph = parse(kFolding);
  s.options.struct_size = sizeof s.options;
  s.options.freeze = 1, s.options.context = context;
  s.params[1] = &tw, s.params[2] = &tv;
  for (h.sticky = 0; h.sticky < 2; ++h.sticky) { /* only that allocation fails; it and all later ones fail */
    CHECK(fail_each(&h, &s, create) >= 2 && h.blocks > 0);
    s.rows = 4;
    i = fail_each(&h, &s, run_rows); /* the workspace, and packed weights if the library packs */
    CHECK(i >= 1 && i <= 2 && y_right(4));
    CHECK(fail_each(&h, &s, run_rows) == 0 && y_right(4)); /* the memory was kept */
    s.rows = kMostRows;                                    /* a new plan, and a larger workspace */
    CHECK(fail_each(&h, &s, run_rows) == 1 && y_right(kMostRows));
    CHECK(fail_each(&h, &s, update) >= 2);
    OK(run_rows(&s));
    CHECK(y_right(kMostRows));
    tenon_program_release(s.program);
    CHECK(h.blocks == 0 && h.bytes == 0);
  }
  tenon_graph_release(s.graph);
  tenon_context_release(context);
}
