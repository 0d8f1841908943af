/* What a host can get wrong beside its tensors. */
#include "capi.h"

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

void struct_sizes(void) {
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
