/* Tenon's C interface: hand over a graph, get a program, run it.
 *
 * Conventions
 * (1) Errors. Functions that can fail return tenon_status; TENON_OK is 0. The sentence behind the last failure of the
 *     calling thread is tenon_last_error(). Nothing is thrown, printed or aborted; outputs are untouched on failure,
 *     but of values that cannot be computed with (tenon_program_run).
 * (2) Ownership. *_create and *_parse give one reference; *_retain adds one, *_release drops one (NULL is allowed).
 *     Tensors and strings passed in are borrowed for the call, unless the function says otherwise. Strings handed out
 *     are borrowed; each function says until when.
 * (3) Threads. A graph under construction belongs to one thread. A finished graph, a context and a program may be used
 *     by any number of threads at once, except where a function says otherwise.
 * (4) Structures that may grow begin with struct_size, set by the caller to sizeof. Fields a caller does not know are
 *     taken as zero = default; fields the library does not know must be zero.
 * (5) Texts are UTF-8. Where a length follows, TENON_NTS as the length means "ends with a zero byte"; texts without a
 *     length end with a zero byte.
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
  TENON_INVALID = 1, /* the caller's graph, tensor or option; the message names node and shapes or dtypes */
  TENON_UNSUPPORTED = 2, /* an answer: the framework keeps the op */
  TENON_ENVIRONMENT = 3, /* a missing library, a driver's code, a compiler's log */
  TENON_INTERNAL = 4     /* our bug; the host survives */
};

/* Byte for byte DLPack's DLTensor. */
typedef struct tenon_device {
  int32_t type; /* 1: CPU, 2: CUDA */
  int32_t id;
} tenon_device;
typedef struct tenon_dtype {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2 */
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

typedef struct tenon_context tenon_context;
typedef struct tenon_graph tenon_graph;
typedef struct tenon_program tenon_program;

/* ---- version and errors ---- */

/* major << 16 | minor */
TENON_API uint32_t tenon_version(void);
/* "0.1.0"; lives as long as the process. */
TENON_API const char* tenon_version_string(void);
/* The message of the last call of this thread that failed; "" if none. Valid until the next failing call. */
TENON_API const char* tenon_last_error(void);
/* Makes it "". */
TENON_API void tenon_clear_error(void);
/* "ok", "invalid", "unsupported", "environment", "internal"; "unknown" for any other number. */
TENON_API const char* tenon_status_name(tenon_status status);
/* Version and back ends with their libraries, one a line. Lives as long as the process. */
TENON_API const char* tenon_build_info(void);

/* ---- contexts: what programs share with their host ---- */

/* topic: a word ("warning", "fuse", "dump.STAGE", ...). From any thread, also several at once; no lock of Tenon's is
 * held; must not call Tenon. */
typedef void (*tenon_log_fn)(void* user, const char* topic, const char* message);
/* A part of a parallel loop: work on [begin, end) as thread number `thread`, in [0, most). */
typedef void (*tenon_range_fn)(void* arg, int32_t thread, int64_t begin, int64_t end);
/* Calls fn(arg, thread, begin, end) so that the ranges cover [0, n) once each, on at most `most` threads, each with a
 * number of its own and at most one range; returns when all are done. Called on the thread of tenon_program_run. */
typedef void (*tenon_parallel_for_fn)(void* user, int64_t n, int32_t most, tenon_range_fn fn, void* arg);

/* At least `bytes` bytes at a multiple of `alignment`, or NULL: the run then fails with TENON_ENVIRONMENT. Any thread. */
typedef void* (*tenon_alloc_fn)(void* user, size_t bytes, size_t alignment);
typedef void (*tenon_free_fn)(void* user, void* block, size_t bytes);

/* The same on another device: memory of `device`, at a multiple of 256 bytes, that may be used in the order of `stream` from
 * now on; what *token is set to comes back with the block. free is told the same stream; work queued there before may still
 * use the block. Called on the thread of tenon_program_run_on. */
typedef void* (*tenon_device_alloc_fn)(void* user, tenon_device device, size_t bytes, void* stream,
                                       void** token);
typedef void (*tenon_device_free_fn)(void* user, tenon_device device, void* block, size_t bytes, void* stream,
                                     void* token);

typedef struct tenon_context_options {
  size_t struct_size;
  tenon_log_fn
      log; /* NULL: none. The process has one logger: that of the newest living context that brought one */
  void* log_user;
  tenon_parallel_for_fn parallel_for; /* NULL: OpenMP */
  void* parallel_user;
  int32_t
      num_threads; /* with parallel_for the number of its threads, at least 1; else at most this many, 0: as OpenMP says */
  tenon_alloc_fn alloc; /* the workspace of runs and constants folded; NULL: Tenon's own. Both or neither */
  tenon_free_fn free;
  void* allocator_user;
  tenon_device_alloc_fn
      device_alloc; /* the workspace of runs on a GPU; NULL: the driver's pool. Both or neither */
  tenon_device_free_fn device_free;
  void* device_allocator_user;
} tenon_context_options;

/* options may be NULL. Programs made with the context keep it alive. */
TENON_API tenon_status tenon_context_create(const tenon_context_options* options, tenon_context** out);
TENON_API void tenon_context_retain(tenon_context* context);
TENON_API void tenon_context_release(tenon_context* context);

/* ---- ops ---- */

typedef struct tenon_op_info {
  size_t struct_size;
  const char* name;
  const char* kind;  /* input map reduce scan move contract composite opaque */
  const char* attrs; /* "axis:int keepdims:bool=false": name:kind=default */
  const char* doc;   /* one sentence with the formula */
  int32_t arity;     /* operands at most; -1: one or more */
  int32_t optional;  /* how many trailing operands may be left out */
  double ulp;        /* how close f32 results are to the exact value; 0: exact, or correctly rounded */
} tenon_op_info;

TENON_API size_t tenon_op_count(void);
/* NULL from tenon_op_count() on. Lives as long as the process, as all texts of tenon_op_info. */
TENON_API const char* tenon_op_name(size_t index);
/* Set out->struct_size before the call. */
TENON_API tenon_status tenon_op_describe(const char* name, tenon_op_info* out);

typedef struct tenon_op_desc {
  size_t struct_size;
  const char* name;
  int32_t arity;     /* operands, 0 to 64 */
  const char* attrs; /* as in tenon_op_info, kinds int, float, bool and number; NULL: none */
  const char* body;  /* a graph in text form with one output: what the op computes */
  const char* doc;   /* one sentence */
} tenon_op_desc;
/* Adds an op for the life of the process. The first `arity` inputs of the body are the operands: their dtypes are those
 * of the inputs, a symbol in their shapes stands for any size (the same one everywhere), any other size for itself. An
 * attribute of kind int is the symbol of its name; every attribute may be an input of its name and of shape [] after the
 * operands. */
TENON_API tenon_status tenon_op_register(const tenon_op_desc* desc);

/* ---- graphs ---- */

/* Reads the text form (docs/graph_text.md). The message of a failure lists every error with line and column. */
TENON_API tenon_status tenon_graph_parse(const char* text, size_t length, tenon_graph** out);
/* The text form of a finished graph. Writes at most `capacity` bytes, the last of them zero, and to *length what the
 * whole text needs without that zero: call with NULL and 0 first. TENON_INVALID if capacity is neither 0 nor enough. */
TENON_API tenon_status tenon_graph_print(const tenon_graph* graph, char* buffer, size_t capacity,
                                         size_t* length);
TENON_API void tenon_graph_retain(tenon_graph* graph);
TENON_API void tenon_graph_release(tenon_graph* graph);

/* A graph step by step: inputs, constants and nodes in any order, each after what it reads; then outputs; then finalize.
 * A step that fails says why, and the graph remembers: *out is then TENON_NO_VALUE, which later nodes may read without a
 * further complaint, and finalize fails with all messages, one a line. Names may be NULL; else they are unique. */
typedef uint32_t tenon_value;
#define TENON_NO_VALUE ((tenon_value) - 1)

typedef struct tenon_input_options {
  size_t struct_size;
  int32_t param;       /* nonzero: does not change from call to call, may be frozen */
  const char* strides; /* in elements, "4*N,4,1"; NULL: dense row-major */
  const char* symbol;  /* the input is an i64 of shape [] that defines this symbol; NULL: none */
} tenon_input_options;

/* name: of the graph; NULL: "main". */
TENON_API tenon_status tenon_graph_create(const char* name, tenon_graph** out);
/* dims: "N,2*N,4", "" for a scalar. options may be NULL. */
TENON_API tenon_status tenon_graph_add_input(tenon_graph* graph, const char* name, tenon_dtype dtype,
                                             const char* dims, const tenon_input_options* options,
                                             tenon_value* out);
/* The bytes are copied. */
TENON_API tenon_status tenon_graph_add_constant(tenon_graph* graph, const char* name,
                                                const tenon_tensor* data, tenon_value* out);
/* attrs: "axis=-1, keepdims=true" as between the braces of the text form; NULL: none. out may be one of the inputs. */
TENON_API tenon_status tenon_graph_add_node(tenon_graph* graph, const char* op, const tenon_value* inputs,
                                            size_t n_inputs, const char* attrs, const char* name,
                                            tenon_value* out);
/* strides: one text per output, as in tenon_input_options; entries, and strides itself, may be NULL. */
TENON_API tenon_status tenon_graph_set_outputs(tenon_graph* graph, const tenon_value* values, size_t n_values,
                                               const char* const* strides);
/* Checks everything; on success the graph is finished and never changes again. */
TENON_API tenon_status tenon_graph_finalize(tenon_graph* graph);

/* Which nodes run, and on what. One call of fn per node that is not an input or a constant, in order. backend: "" if none
 * runs it, else one name or several with "+" between; why: a sentence either way. The texts live for the call. */
typedef void (*tenon_query_fn)(void* user, tenon_value node, const char* name, const char* op,
                               const char* backend, const char* why);
TENON_API tenon_status tenon_graph_query(const tenon_graph* graph, tenon_device device, tenon_query_fn fn,
                                         void* user);

/* ---- programs ---- */

/* On a GPU a plan of four kernels and library calls or more can be launched as one CUDA graph from its fourth run on, unless
 * the caller's stream captures; the graph is patched where pointers change. */
enum {
  TENON_DEVICE_GRAPHS_AUTO =
      0, /* where kernels are so small that launching them one by one takes longer than they do */
  TENON_DEVICE_GRAPHS_ALWAYS = 1,
  TENON_DEVICE_GRAPHS_NEVER = 2
};

/* Kernels take sizes as arguments. A hot one may be compiled again with the sizes of a plan as constants; the results
 * are the same bits. */
enum {
  TENON_SPECIALIZE_OFF = 0,
  TENON_SPECIALIZE_BACKGROUND =
      1,                    /* by one thread of low priority, within limits; kept where calls are faster */
  TENON_SPECIALIZE_WAIT = 2 /* every kernel of every plan, before its first run */
};

typedef struct tenon_program_options {
  size_t struct_size;
  int32_t freeze;      /* nonzero: the params given are constants, packed and folded once */
  int32_t num_threads; /* at most this many; 0: as the context says, without one as the host's OpenMP does */
  tenon_context* context; /* NULL: none */
  int64_t max_plans;      /* kept at most, one per set of sizes; the least used go first. 0: 1024 */
  int64_t max_plan_bytes; /* all together, about. 0: 64 MiB. One plan is kept whatever the limits */
  int32_t specialize;     /* TENON_SPECIALIZE_... */
  int32_t verify;         /* so many runs are verified, below. 0: none */
  tenon_device
      device; /* where it runs, and its inputs and outputs are; type 0: the CPU. freeze is for the CPU only */
  int32_t device_graphs; /* TENON_DEVICE_GRAPHS_...: which plans become a CUDA graph */
  int32_t reserved2;     /* 0 */
} tenon_program_options;

/* A run that is verified is also computed by the evaluator, slowly, and compared by its accuracy rule. Where they differ it
 * is TENON_INTERNAL; the message has the smallest graph that shows it, and the pass or back end at fault. Its outputs must
 * have memory of their own. On the CPU only.
 *
 * Optimises, fuses and compiles. With freeze, params holds one tensor per graph input, NULL for inputs that are not
 * frozen; their bytes are borrowed until the program is released or update_params is called. options may be NULL. */
TENON_API tenon_status tenon_program_create(const tenon_graph* graph, const tenon_program_options* options,
                                            const tenon_tensor* const* params, size_t n_params,
                                            tenon_program** out);
/* New bytes for the frozen params: folds and packs again, and makes plans anew. Runs under way in other threads end with
 * the former bytes, which nobody reads any more when this returns. Not from within a run (a parallel_for). */
TENON_API tenon_status tenon_program_update_params(tenon_program* program, const tenon_tensor* const* params,
                                                   size_t n_params);
/* New limits, as in tenon_program_options; what is beyond them goes at once. Plans that run end in peace. */
TENON_API tenon_status tenon_program_set_limits(tenon_program* program, int64_t max_plans,
                                                int64_t max_plan_bytes);
/* Runs on CPU tensors and returns when done (a program on a GPU: as tenon_program_run_on with the default stream). Inputs and outputs stand in the graph's order; frozen inputs may be NULL.
 * Outputs must not overlap each other or an input, with one exception: on the CPU an output may be an input's memory, with its
 * type and strides, where every element is read for the last time right before it is written and nothing can fail from there
 * on (an update in place, as of an optimizer); else that is TENON_INVALID, and nothing has been written. Strides must be those the graph declares. On the CPU an index out of range
 * and an integer divided by 0 are TENON_INVALID and the message names the node, if what it computes is needed; nothing outside
 * the tensors is read or written, but the outputs' contents are undefined then. A GPU takes index 0 and result 0. */
TENON_API tenon_status tenon_program_run(tenon_program* program, const tenon_tensor* const* inputs,
                                         size_t n_inputs, const tenon_tensor* const* outputs,
                                         size_t n_outputs);
/* The same on `stream` (a CUstream, as cudaStream_t; NULL: the default one) of the program's device: queues the work and
 * returns before it is done; never waits for the device. Inputs that define a symbol stay on the CPU. The first run with new
 * sizes makes a plan and may compile, which a stream that captures refuses (TENON_ENVIRONMENT); later runs can be captured.
 * Sizes for which a library has nothing are TENON_UNSUPPORTED, from the second time on at once: that is kept as plans are.
 * What the driver refuses is TENON_ENVIRONMENT with its words; outputs may then be written in part. For a program of the
 * CPU, stream must be NULL and this is tenon_program_run. */
TENON_API tenon_status tenon_program_run_on(tenon_program* program, const tenon_tensor* const* inputs,
                                            size_t n_inputs, const tenon_tensor* const* outputs,
                                            size_t n_outputs, void* stream);
/* The optimised graph, its steps and the reasons, as text or JSON. Valid until this thread's next tenon_*_explain. */
TENON_API tenon_status tenon_program_explain(tenon_program* program, int32_t json, const char** text,
                                             size_t* length);

typedef struct tenon_program_stats {
  size_t struct_size;
  int64_t nodes;            /* in groups: what the optimised graph has left to run */
  int64_t nodes_fused;      /* those of them that share a group with another */
  int64_t kernels;          /* kernels and library calls of one run */
  int64_t kernels_compiled; /* kernels that went through the compiler for this program */
  int64_t steps;
  int64_t workspace_bytes; /* of the newest plan: intermediates and scratch */
  int64_t plans;
  int64_t plan_hits;
  double compile_ms; /* optimising, compiling and packing */
  /* Counted from the last update_params: */
  int64_t plan_misses;         /* sizes that needed a plan, also those refused */
  int64_t plan_waits;          /* runs that waited for another thread to make their plan */
  int64_t plan_evictions;      /* plans dropped for want of room */
  int64_t plan_bytes;          /* held by plans, about */
  double plan_ms;              /* spent making plans */
  int64_t kernels_specialized; /* launches that were given their sizes as constants */
  int64_t specialize_refused;  /* launches for which that was no faster, or beyond the limits */
  int64_t reference_steps;     /* steps of the back end "reference": none unless asked for by name */
} tenon_program_stats;
TENON_API tenon_status tenon_program_get_stats(tenon_program* program, tenon_program_stats* out);
TENON_API void tenon_program_retain(tenon_program* program);
TENON_API void tenon_program_release(tenon_program* program);

/* ---- kernels on disk (docs/cache.md) ---- */

typedef struct tenon_cache_stats {
  size_t struct_size;
  const char* directory; /* "" where none is used. Lives as long as the process, as `off` */
  const char* off;       /* why nothing is read and written; "" where it is */
  /* Of this process: */
  int64_t hits;          /* kernels taken from the directory */
  int64_t misses;        /* kernels that were not there, or not to be used */
  int64_t refused;       /* of the misses: there, but damaged, another kernel, or not for this machine */
  int64_t damaged;       /* of the refused: useless to everybody */
  int64_t writes;        /* kernels stored */
  int64_t failed_writes; /* kernels compiled and not stored, the disk being full or read-only, say */
  int64_t removed;       /* files: useless ones, and the longest unused for want of room */
  int64_t bytes_read;
  int64_t bytes_written;
} tenon_cache_stats;
/* Set out->struct_size before the call. */
TENON_API tenon_status tenon_cache_get_stats(tenon_cache_stats* out);

#ifdef __cplusplus
}
#endif

#endif /* TENON_TENON_H_ */
