/* Tenon's C interface: hand over a graph, get a program, run it.
 *
 * Conventions
 * (1) Errors. Functions that can fail return tenon_status; TENON_OK is 0. The sentence behind the last failure of the
 *     calling thread is tenon_last_error(). Nothing is thrown, printed or aborted; outputs are untouched on failure.
 * (2) Ownership. *_create and *_parse give one reference; *_retain adds one, *_release drops one (NULL is allowed).
 *     Tensors and strings passed in are borrowed for the call, unless the function says otherwise. Strings handed out
 *     are borrowed; each function says until when.
 * (3) Threads. A graph under construction belongs to one thread. A finished graph, a context and a program may be used
 *     by any number of threads at once, except where a function says otherwise.
 * (4) Structures that may grow begin with struct_size, set by the caller to sizeof. Fields a caller does not know are
 *     taken as zero = default; fields the library does not know must be zero.
 * (5) Names and texts are UTF-8 pointers with a length; TENON_NTS as the length means "ends with a zero byte".
 * (6) Versions. Functions are added, never changed or removed, within a major version.
 */
#ifndef TENON_TENON_H_
#define TENON_TENON_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 1
#define TENON_NTS ((size_t)-1)

typedef int32_t tenon_status;
enum {
  TENON_OK = 0,
  TENON_INVALID = 1,      /* the caller's graph, tensor or option; the message names node and shapes or dtypes */
  TENON_UNSUPPORTED = 2,  /* an answer: the framework keeps the op */
  TENON_ENVIRONMENT = 3,  /* a missing library, a driver's code, a compiler's log */
  TENON_INTERNAL = 4      /* our bug; the host survives */
};

/* Byte for byte DLPack's DLTensor. */
typedef struct tenon_device {
  int32_t type; /* 1: CPU */
  int32_t id;
} tenon_device;
typedef struct tenon_dtype {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} tenon_dtype;
typedef struct tenon_tensor {
  void* data;
  tenon_device device;
  int32_t ndim;
  tenon_dtype dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: dense row-major */
  uint64_t byte_offset;
} tenon_tensor;

typedef struct tenon_graph tenon_graph;
typedef struct tenon_program tenon_program;

/* ---- version and errors ---- */

/* major << 16 | minor */
TENON_API uint32_t tenon_version(void);
/* "0.1.0"; lives as long as the process. */
TENON_API const char* tenon_version_string(void);
/* The message of the last call of this thread that failed; "" if none. Valid until the next failing call. */
TENON_API const char* tenon_last_error(void);

/* ---- graphs ---- */

/* Reads the text form (docs/graph_text.md). The message of a failure lists every error with line and column. */
TENON_API tenon_status tenon_graph_parse(const char* text, size_t length, tenon_graph** out);
TENON_API void tenon_graph_retain(tenon_graph* graph);
TENON_API void tenon_graph_release(tenon_graph* graph);

/* ---- programs ---- */

typedef struct tenon_program_options {
  size_t struct_size;
  int32_t freeze;      /* nonzero: the params given are constants, packed and folded once */
  int32_t num_threads; /* 0: as the host's OpenMP says at each call */
} tenon_program_options;

/* Optimises, fuses and compiles. With freeze, params holds one tensor per graph input, NULL for inputs that are not
 * frozen; their bytes are borrowed until the program is released or update_params is called. options may be NULL. */
TENON_API tenon_status tenon_program_create(const tenon_graph* graph, const tenon_program_options* options,
                                  const tenon_tensor* const* params, size_t n_params, tenon_program** out);
/* New bytes for the frozen params: folds and packs again. Not while another thread runs the program. */
TENON_API tenon_status tenon_program_update_params(tenon_program* program, const tenon_tensor* const* params, size_t n_params);
/* Runs on CPU tensors and returns when done. Inputs and outputs stand in the graph's order; frozen inputs may be NULL.
 * Outputs must not overlap each other or an input. Strides must be those the graph declares. */
TENON_API tenon_status tenon_program_run(tenon_program* program, const tenon_tensor* const* inputs, size_t n_inputs,
                               const tenon_tensor* const* outputs, size_t n_outputs);
/* The optimised graph, its steps and the reasons, as text or JSON. Valid until this thread's next tenon_*_explain. */
TENON_API tenon_status tenon_program_explain(tenon_program* program, int32_t json, const char** text, size_t* length);

typedef struct tenon_program_stats {
  size_t struct_size;
  int64_t nodes;            /* of the graph as given */
  int64_t nodes_fused;      /* nodes that share a group with another */
  int64_t kernels;          /* kernels and library calls of one run */
  int64_t kernels_compiled; /* kernels that went through the compiler for this program */
  int64_t steps;
  int64_t workspace_bytes;  /* of the newest plan: intermediates and scratch */
  int64_t plans;
  int64_t plan_hits;
  double compile_ms;        /* optimising, compiling and packing */
} tenon_program_stats;
TENON_API tenon_status tenon_program_get_stats(tenon_program* program, tenon_program_stats* out);
TENON_API void tenon_program_retain(tenon_program* program);
TENON_API void tenon_program_release(tenon_program* program);

#ifdef __cplusplus
}
#endif

#endif /* TENON_TENON_H_ */
