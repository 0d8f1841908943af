/* Tenon's C interface: a host hands over a graph, gets a program, and runs the program.
 *
 * Conventions
 * (1) Errors. Functions that can fail return tenon_status; TENON_OK is 0. tenon_last_error() describes the last
 *     failure of the calling thread. No function throws, prints or aborts. A function that fails leaves its outputs
 *     untouched; tenon_program_run and tenon_program_run_on state the exceptions.
 * (2) Ownership. *_create and *_parse return one reference; *_retain adds one, *_release drops one (both accept NULL).
 *     The library borrows tensors and strings for the duration of the call, unless the function says otherwise.
 *     Returned strings are borrowed; each function states how long they are valid.
 * (3) Threads. A graph under construction belongs to one thread. Any number of threads may use a finished graph, a
 *     context and a program at once, unless a function says otherwise.
 * (4) Structures that may grow begin with struct_size, which the caller sets to sizeof. The library takes fields that
 *     the caller does not know as zero, the default; fields that the library does not know must be zero.
 * (5) Strings are UTF-8. Where a length is passed with a string, TENON_NTS as the length means that the string ends
 *     with a zero byte. A string without a length always ends with a zero byte.
 * (6) Versions. Within a major version, functions are added and never changed or removed.
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
  TENON_INVALID = 1,     /* a wrong graph, tensor or option; the message names node and shapes or dtypes */
  TENON_UNSUPPORTED = 2, /* an answer, not a failure: the framework keeps the op */
  TENON_ENVIRONMENT = 3, /* a missing library, a driver's error code or a compiler's log */
  TENON_INTERNAL = 4     /* a bug of Tenon; the host survives */
};

/* Byte for byte the same as DLPack's DLTensor. */
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

/* major << 16 | minor. */
TENON_API uint32_t tenon_version(void);
/* "0.1.0". Valid for the life of the process. */
TENON_API const char* tenon_version_string(void);
/* The message of the last failed call of this thread; "" if no call failed. Valid until the next failing call
 * of this thread. */
TENON_API const char* tenon_last_error(void);
/* Sets the last error to "". */
TENON_API void tenon_clear_error(void);
/* "ok", "invalid", "unsupported", "environment", "internal"; "unknown" for any other number. */
TENON_API const char* tenon_status_name(tenon_status status);
/* The version, the linker's hash of the library, then one line per back end with its libraries. Valid for the life of the
 * process. */
TENON_API const char* tenon_build_info(void);

/* ---- contexts: what programs share with their host ---- */

/* Receives log messages. topic is one word ("warning", "fuse", "dump.STAGE", ...). Tenon may call the
 * function from any thread, and from several threads at once; it holds no lock during the call. The function
 * must not call Tenon. */
typedef void (*tenon_log_fn)(void* user, const char* topic, const char* message);
/* One part of a parallel loop: processes [begin, end) as thread number `thread`, 0 <= thread < most. */
typedef void (*tenon_range_fn)(void* arg, int32_t thread, int64_t begin, int64_t end);
/* Calls fn(arg, thread, begin, end) so that the ranges cover [0, n) exactly once. Uses at most `most`
 * threads; each thread has its own number and gets at most one range. Returns when all calls have returned.
 * Called on the thread that called tenon_program_run. */
typedef void (*tenon_parallel_for_fn)(void* user, int64_t n, int32_t most, tenon_range_fn fn, void* arg);

/* Returns at least `bytes` bytes at a multiple of `alignment`. If it returns NULL, the run fails with
 * TENON_ENVIRONMENT. Called on any thread. */
typedef void* (*tenon_alloc_fn)(void* user, size_t bytes, size_t alignment);
typedef void (*tenon_free_fn)(void* user, void* block, size_t bytes);

/* Allocates memory of `device`, at a multiple of 256 bytes. Work that is queued on `stream` from now on may
 * use the block. Tenon passes the value stored in *token back with the block. The free function gets the same
 * stream; work queued there earlier may still use the block. Called on the thread that called
 * tenon_program_run_on. */
typedef void* (*tenon_device_alloc_fn)(void* user, tenon_device device, size_t bytes, void* stream,
                                       void** token);
typedef void (*tenon_device_free_fn)(void* user, tenon_device device, void* block, size_t bytes, void* stream,
                                     void* token);

typedef struct tenon_context_options {
  size_t struct_size;
  tenon_log_fn log; /* NULL: none. The process uses the logger of the newest living context that has one */
  void* log_user;
  tenon_parallel_for_fn parallel_for; /* NULL: OpenMP */
  void* parallel_user;
  int32_t num_threads;  /* with parallel_for its number of threads, >= 1; else a limit, 0: OpenMP's number */
  tenon_alloc_fn alloc; /* workspace of runs and folded constants; NULL: Tenon's own. Set both or neither */
  tenon_free_fn free;
  void* allocator_user;
  tenon_device_alloc_fn device_alloc; /* for GPU runs; NULL: the driver's pool. Set both or neither */
  tenon_device_free_fn device_free;
  void* device_allocator_user;
} tenon_context_options;

/* options may be NULL. Programs created with the context keep it alive. */
TENON_API tenon_status tenon_context_create(const tenon_context_options* options, tenon_context** out);
TENON_API void tenon_context_retain(tenon_context* context);
TENON_API void tenon_context_release(tenon_context* context);

/* ---- ops ---- */

/* Operands for which a run fails, as a framework raises an error: */
enum {
  TENON_FAULT_NEVER = 0,
  TENON_FAULT_INTEGER = 1, /* some integer operands, a divisor of 0 for one; floats never */
  TENON_FAULT_INDEX = 2    /* an index out of range, whatever the dtype of the other operands */
};

typedef struct tenon_op_info {
  size_t struct_size;
  const char* name;
  const char* kind;  /* input map reduce scan move contract composite opaque */
  const char* attrs; /* "axis:int keepdims:bool=false": each is name:kind or name:kind=default */
  const char* doc;   /* one sentence with the formula */
  int32_t arity;     /* the most operands; -1: one or more */
  int32_t optional;  /* how many trailing operands may be omitted */
  double ulp; /* the error bound of f32 results, in ulps of the exact value; 0: exact or correctly rounded */
  int32_t to_bool; /* 1: the result is bool, whatever the dtype of the operands */
  int32_t fault;   /* TENON_FAULT_...; of the op itself, not of the ops that a composite is made of */
} tenon_op_info;

TENON_API size_t tenon_op_count(void);
/* Returns NULL if index >= tenon_op_count(). The name, as all strings of tenon_op_info, is valid for the life
 * of the process. */
TENON_API const char* tenon_op_name(size_t index);
/* Set out->struct_size before the call. */
TENON_API tenon_status tenon_op_describe(const char* name, tenon_op_info* out);

typedef struct tenon_op_desc {
  size_t struct_size;
  const char* name;
  int32_t arity;     /* number of operands, 0 to 64 */
  const char* attrs; /* as in tenon_op_info; kinds int, float, bool and number; NULL: none */
  const char* body;  /* a graph in text form with one output, which computes the op */
  const char* doc;   /* one sentence */
} tenon_op_desc;
/* Adds an op for the life of the process. The first `arity` inputs of the body are the operands. An operand
 * has the dtype of its input. A symbol in the shape of an input stands for any size, the same size wherever
 * the symbol occurs; any other size stands for itself. The body assumes nothing about sizes and updates no
 * input. An attribute of kind int defines the symbol of its name. The body may also declare any attribute as
 * an input of its name and of shape [], after the operands. */
TENON_API tenon_status tenon_op_register(const tenon_op_desc* desc);

/* ---- graphs ---- */

/* Parses the text form (docs/graph_text.md) and checks the graph as tenon_graph_finalize does. On failure the
 * message lists every error of the text with line and column. If the text has none, it lists every error of the
 * graph (two inputs that define a symbol, an update of another type) with the name of the value. */
TENON_API tenon_status tenon_graph_parse(const char* text, size_t length, tenon_graph** out);
/* Writes the text form of a finished graph: at most `capacity` bytes, including the terminating zero. Sets
 * *length to the length of the whole text without the zero; call with NULL and 0 first to learn it.
 * TENON_INVALID if capacity is neither 0 nor large enough. */
TENON_API tenon_status tenon_graph_print(const tenon_graph* graph, char* buffer, size_t capacity,
                                         size_t* length);
TENON_API void tenon_graph_retain(tenon_graph* graph);
TENON_API void tenon_graph_release(tenon_graph* graph);

/* Builds a graph step by step: inputs, constants and nodes in any order, each after its operands; then
 * outputs; then finalize. A step that fails returns its error and sets *out to TENON_NO_VALUE. Later nodes
 * may read TENON_NO_VALUE without another error. Finalize then fails with all messages, one per line. Names
 * may be NULL; other names must be unique. */
typedef uint32_t tenon_value;
#define TENON_NO_VALUE ((tenon_value) - 1)

typedef struct tenon_input_options {
  size_t struct_size;
  int32_t param;       /* nonzero: the same in every call; may be frozen */
  const char* strides; /* in elements, "4*N,4,1"; NULL: dense row-major */
  const char* symbol;  /* the input is an i64 of shape [] that defines this symbol; NULL: it defines none */
  int32_t
      donated; /* nonzero: a run may use the tensor's memory for intermediates, and leaves any bytes in it */
} tenon_input_options;

/* name: the graph's name; NULL: "main". */
TENON_API tenon_status tenon_graph_create(const char* name, tenon_graph** out);
/* dims: "N,2*N,4"; "" for a scalar. options may be NULL. */
TENON_API tenon_status tenon_graph_add_input(tenon_graph* graph, const char* name, tenon_dtype dtype,
                                             const char* dims, const tenon_input_options* options,
                                             tenon_value* out);
/* Copies the bytes. */
TENON_API tenon_status tenon_graph_add_constant(tenon_graph* graph, const char* name,
                                                const tenon_tensor* data, tenon_value* out);
/* attrs: "axis=-1, keepdims=true", as between the braces of the text form; NULL: none. out may point into
 * inputs. */
TENON_API tenon_status tenon_graph_add_node(tenon_graph* graph, const char* op, const tenon_value* inputs,
                                            size_t n_inputs, const char* attrs, const char* name,
                                            tenon_value* out);
/* Sets *dtype, and writes the sizes of a value as tenon_graph_add_input takes them, "N,2*N,4": at most `capacity`
 * bytes, as in tenon_graph_print. The graph may be finished or under construction. */
TENON_API tenon_status tenon_graph_value_type(const tenon_graph* graph, tenon_value value, tenon_dtype* dtype,
                                              char* dims, size_t capacity, size_t* length);
/* strides: one string per output, as in tenon_input_options. The array and its entries may be NULL. */
TENON_API tenon_status tenon_graph_set_outputs(tenon_graph* graph, const tenon_value* values, size_t n_values,
                                               const char* const* strides);
/* Adds an output that updates an input: a run writes `value` into the memory of `input`, as an optimizer updates
 * a weight or a decoder its cache. Every read of the input in the graph sees the former bytes. The two have the same
 * type; the input is no param, and no other output updates it. Call it after tenon_graph_set_outputs, which
 * removes updates. A host passes no tensor for such an output. */
TENON_API tenon_status tenon_graph_add_update(tenon_graph* graph, tenon_value input, tenon_value value);
/* Checks the whole graph. On success the graph is finished and never changes again. */
TENON_API tenon_status tenon_graph_finalize(tenon_graph* graph);

/* Gradients (docs/gradients.md). Adds nodes that compute the derivative of L by each value of wrt, where L is the sum
 * over the targets of head times target, all elements added up. heads: NULL, or one value per target, of the
 * target's type; TENON_NO_VALUE, as NULL, stands for ones. Writes one value per entry of wrt, of its type, to out;
 * zeros if no target depends on it. Values of wrt need not be inputs. TENON_INVALID if a target or a value of wrt is
 * no float; TENON_UNSUPPORTED if the derivative of a node between them is not known. */
TENON_API tenon_status tenon_graph_add_gradients(tenon_graph* graph, const tenon_value* targets,
                                                 size_t n_targets, const tenon_value* heads,
                                                 const tenon_value* wrt, size_t n_wrt, tenon_value* out);

typedef struct tenon_gradient_options {
  size_t struct_size;
  const int32_t* targets; /* positions of outputs; NULL: all floats */
  size_t n_targets;
  const int32_t* wrt; /* positions of inputs; NULL: all floats */
  size_t n_wrt;
  int32_t heads; /* nonzero: an input d_NAME per target, of its type, after the graph's inputs; 0: ones */
  int32_t keep_outputs; /* nonzero: the graph's outputs come before the gradients */
} tenon_gradient_options;
/* Makes the graph that computes the gradients of a finished graph; they are its outputs, in the order of wrt. options
 * may be NULL. Fails as tenon_graph_add_gradients does. */
TENON_API tenon_status tenon_graph_gradient(const tenon_graph* graph, const tenon_gradient_options* options,
                                            tenon_graph** out);

/* Reports which nodes Tenon runs, and with which back end. Calls fn once for each node that is not an input
 * or a constant, in order. backend: "" if no back end runs the node, else one name, or several names joined
 * by "+". why: a sentence in both cases. The strings are valid during the call of fn. */
typedef void (*tenon_query_fn)(void* user, tenon_value node, const char* name, const char* op,
                               const char* backend, const char* why);
TENON_API tenon_status tenon_graph_query(const tenon_graph* graph, tenon_device device, tenon_query_fn fn,
                                         void* user);

/* ---- NNVM and MXNet symbols (docs/mxnet.md) ---- */

typedef struct tenon_symbol tenon_symbol;
/* Parses symbol JSON as any version of MXNet writes it. On failure the message has the byte or the node. Files
 * of old versions are brought to the form of MXNet 1.9. This can insert variables that they leave out, so the
 * numbers of nodes are those of tenon_symbol_print. */
TENON_API tenon_status tenon_symbol_parse(const char* json, size_t length, tenon_symbol** out);
/* Writes JSON as MXNet 1.9 does; the arguments are those of tenon_graph_print. */
TENON_API tenon_status tenon_symbol_print(const tenon_symbol* symbol, char* buffer, size_t capacity,
                                          size_t* length);
TENON_API void tenon_symbol_retain(tenon_symbol* symbol);
TENON_API void tenon_symbol_release(tenon_symbol* symbol);
/* 0 for NULL. */
TENON_API size_t tenon_symbol_node_count(const tenon_symbol* symbol);
/* The operator and the name of a node; the operator of a variable is "null". Both are valid until the symbol is
 * released. Either pointer may be NULL. */
TENON_API tenon_status tenon_symbol_node(const tenon_symbol* symbol, size_t node, const char** op,
                                         const char** name);
/* The text of an attribute of a node; NULL if it has none of this name. Valid until the symbol is released. */
TENON_API tenon_status tenon_symbol_attribute(const tenon_symbol* symbol, size_t node, const char* key,
                                              const char** value);
typedef struct tenon_symbol_entry {
  size_t node;
  size_t output; /* of the node: 0, 1, ... */
} tenon_symbol_entry;
#define TENON_SYMBOL_HEADS ((size_t)-1)
/* What a node reads; with TENON_SYMBOL_HEADS for `node`, what the symbol returns. Sets *count to the number of
 * entries and writes at most `capacity` of them. */
TENON_API tenon_status tenon_symbol_entries(const tenon_symbol* symbol, size_t node,
                                            tenon_symbol_entry* entries, size_t capacity, size_t* count);

typedef struct tenon_symbol_options {
  size_t struct_size;
  int32_t training;     /* nonzero: refuse operators that behave differently in training */
  int32_t min_nodes;    /* of a part; 0: 1 */
  const char* op_names; /* "Convolution,Activation": only these operators; NULL: all that Tenon translates */
} tenon_symbol_options;

/* Calls fn once per node that is no variable, in order: whether Tenon translates it, by its operator and
 * attributes, and a sentence, "" if it does. The strings are valid during the call of fn. options may be NULL
 * here and below. */
typedef void (*tenon_symbol_query_fn)(void* user, size_t node, const char* name, const char* op,
                                      int32_t translated, const char* why);
TENON_API tenon_status tenon_symbol_query(const tenon_symbol* symbol, const tenon_symbol_options* options,
                                          tenon_symbol_query_fn fn, void* user);
/* Groups the translated nodes: writes to parts[i] the part of node i, 0, 1, ..., or -1 if it belongs to none. The
 * nodes of a part are connected. If each part becomes one node, the graph has no cycle. n: the number of
 * nodes. */
TENON_API tenon_status tenon_symbol_partition(const tenon_symbol* symbol, const tenon_symbol_options* options,
                                              int32_t* parts, size_t n);

typedef struct tenon_symbol_input {
  size_t struct_size;
  const char* name;  /* of a variable; the k-th entry with a name is the k-th variable with it */
  tenon_dtype dtype; /* bits 0: unknown, inferred */
  const char* dims;  /* "N,3,224,224"; NULL: unknown, inferred */
  int32_t param;     /* as in tenon_input_options */
} tenon_symbol_input;
/* Translates to a finished graph. Its inputs are the symbol's variables in order, its outputs the symbol's heads.
 * inputs is an array of what is known of variables; all entries have the struct_size of the first. From these
 * types the types of the others are inferred. TENON_INVALID if that fails; TENON_UNSUPPORTED if Tenon does not
 * translate some node. */
TENON_API tenon_status tenon_symbol_graph(const tenon_symbol* symbol, const tenon_symbol_options* options,
                                          const tenon_symbol_input* inputs, size_t n_inputs,
                                          tenon_graph** out);

/* The tensors of a `.params` file. */
typedef struct tenon_params tenon_params;
/* Copies the tensors. On failure the message has the byte. */
TENON_API tenon_status tenon_params_parse(const void* bytes, size_t length, tenon_params** out);
TENON_API void tenon_params_retain(tenon_params* params);
TENON_API void tenon_params_release(tenon_params* params);
/* 0 for NULL. */
TENON_API size_t tenon_params_count(const tenon_params* params);
/* The name without "arg:" or "aux:", "" if the file has no names, and the dense tensor on the CPU. Both are valid
 * until the params are released. Either pointer may be NULL. */
TENON_API tenon_status tenon_params_get(const tenon_params* params, size_t index, const char** name,
                                        tenon_tensor* out);

/* ---- programs ---- */

/* On a GPU, a plan of at least four kernels and library calls can run as one CUDA graph, from its fourth run
 * on and while the caller's stream is not capturing. Tenon patches the CUDA graph when pointers change. */
enum {
  TENON_DEVICE_GRAPHS_AUTO = 0, /* if launching the kernels one by one takes longer than running them */
  TENON_DEVICE_GRAPHS_ALWAYS = 1,
  TENON_DEVICE_GRAPHS_NEVER = 2
};

typedef struct tenon_program_options {
  size_t struct_size;
  int32_t freeze;         /* nonzero: the given params are constants, which Tenon packs and folds once */
  int32_t num_threads;    /* the most to use; 0: the context's number, or without a context OpenMP's */
  tenon_context* context; /* NULL: none */
  int64_t max_plans; /* most plans kept, one per set of sizes; the least recently used go first. 0: 1024 */
  int64_t max_plan_bytes; /* most bytes of all plans, approximately; one plan is always kept. 0: 256 MiB */
  int32_t reserved1;      /* the library accepts any value and ignores it */
  int32_t verify;         /* how many of the first runs to verify, see tenon_program_create. 0: none */
  tenon_device device; /* where the program runs and its tensors lie; type 0: the CPU. freeze needs the CPU */
  int32_t device_graphs; /* TENON_DEVICE_GRAPHS_...: which plans run as a CUDA graph */
  int32_t reserved2;     /* must be 0 */
  /* The most bytes of intermediates at once, as far as running steps again can reach it; 0: any. Symbols need
   * upper bounds (docs/gradients.md). */
  int64_t memory_budget_bytes;
} tenon_program_options;

/* Optimises, fuses and compiles the graph. options may be NULL. With options->freeze, params holds one tensor
 * per graph input, NULL for inputs that are not frozen; Tenon borrows their bytes until the program is
 * released or tenon_program_update_params is called. A verified run (options->verify; CPU only) is computed
 * by the evaluator as well, slowly, and compared by its accuracy rule. If the results differ the run returns
 * TENON_INTERNAL; the message has the smallest graph that shows the difference and the pass or back end at
 * fault. The outputs of a verified run must not share memory with an input. */
TENON_API tenon_status tenon_program_create(const tenon_graph* graph, const tenon_program_options* options,
                                            const tenon_tensor* const* params, size_t n_params,
                                            tenon_program** out);
/* Replaces the bytes of the frozen params: folds and packs again, and drops all plans. Runs under way in
 * other threads finish with the former bytes; when this function returns, nothing reads those any more. Do
 * not call it from within a run (a parallel_for). */
TENON_API tenon_status tenon_program_update_params(tenon_program* program, const tenon_tensor* const* params,
                                                   size_t n_params);
/* Sets new limits, as in tenon_program_options. Plans beyond them are dropped at once; running plans finish
 * first. */
TENON_API tenon_status tenon_program_set_limits(tenon_program* program, int64_t max_plans,
                                                int64_t max_plan_bytes);
/* Runs on CPU tensors and returns when the outputs are written. For a program on a GPU, this is tenon_program_run_on
 * with the default stream. Inputs and outputs are in the graph's order; frozen inputs may be NULL. Strides must be those
 * that the graph declares. Outputs that update an input are not passed: n_outputs counts the others.
 *
 * An updated or donated input must not overlap another input or an output. Tenon writes an updated input in place if
 * nothing reads it later and nothing can fail from there on; otherwise it copies the new value at the end. A run that fails because of an
 * index or a division leaves updated and donated inputs as they were; after another failure on the way
 * (TENON_ENVIRONMENT, TENON_INTERNAL) donated inputs may be overwritten.
 *
 * Outputs must not overlap each other or an input, with one exception: on the CPU an output may be the memory of an
 * input with the same type and strides, if every element is read for the last time right before it is written and
 * nothing can fail from there on (an update in place, as in an optimizer). Any other overlap is TENON_INVALID, and
 * nothing has been written.
 *
 * On the CPU an index out of range and an integer division by 0 are TENON_INVALID if an output needs the result; the
 * message names the node. The run accesses no memory outside the tensors, but the contents of the outputs are then
 * undefined. On a GPU the index becomes 0, and the result of the division is 0. */
TENON_API tenon_status tenon_program_run(tenon_program* program, const tenon_tensor* const* inputs,
                                         size_t n_inputs, const tenon_tensor* const* outputs,
                                         size_t n_outputs);
/* Runs on `stream` of the program's device (a CUstream, the same as a cudaStream_t; NULL: the default stream): queues the
 * work and returns before it is done. Never waits for the device. Inputs that define a symbol stay on the CPU.
 *
 * The first run with new sizes makes a plan and may compile. A stream that is capturing does not allow that
 * (TENON_ENVIRONMENT); later runs can be captured. Sizes that a library does not support are TENON_UNSUPPORTED; Tenon
 * keeps this answer as it keeps plans, so the second run with these sizes fails at once. An error of the driver is
 * TENON_ENVIRONMENT with the driver's message; some outputs may have been written then.
 *
 * For a program on the CPU, stream must be NULL and the function is tenon_program_run. */
TENON_API tenon_status tenon_program_run_on(tenon_program* program, const tenon_tensor* const* inputs,
                                            size_t n_inputs, const tenon_tensor* const* outputs,
                                            size_t n_outputs, void* stream);
/* Memory for an output whose tensor has no data: called once for each, before the first step that writes to it. A step may keep an
 * intermediate there before the output is written. NULL: the run ends with TENON_ENVIRONMENT. Outputs without elements get none. */
typedef void* (*tenon_allocate_output_fn)(void* user, size_t output);
/* From now on the run uses the memory of this donated input no more, and fails only if `allocate` does. Called at most once for
 * each. */
typedef void (*tenon_release_input_fn)(void* user, size_t input);
/* How a run on the CPU gets memory from the host and gives some back while it goes on, so that fewer tensors are alive at once.
 * Both functions are called on one thread, without locks of the library; they may call other functions of Tenon. */
typedef struct tenon_run_host {
  size_t struct_size;
  void* user;
  tenon_allocate_output_fn allocate; /* NULL: all outputs have data */
  tenon_release_input_fn release;    /* NULL: nothing is given back */
} tenon_run_host;
/* tenon_program_run with a host. For a program on a device: TENON_UNSUPPORTED. */
TENON_API tenon_status tenon_program_run_with(tenon_program* program, const tenon_tensor* const* inputs,
                                              size_t n_inputs, const tenon_tensor* const* outputs,
                                              size_t n_outputs, const tenon_run_host* host);
/* The optimised graph, its steps and the reasons for them, as text or as JSON. Valid until this thread's next
 * tenon_*_explain. */
TENON_API tenon_status tenon_program_explain(tenon_program* program, int32_t json, const char** text,
                                             size_t* length);

/* Frees the memory for intermediates that programs on the CPU keep for their next runs, for all programs of the process. Runs under
 * way keep theirs. Any thread. */
TENON_API tenon_status tenon_release_memory(void);

/* Records how long each step of each run takes, for all programs of the process, until tenon_profile_stop. A run then
 * costs two readings of the clock per step; on a device, a step's time is that of its launch. TENON_INVALID if a profile
 * is being recorded. Any thread. */
TENON_API tenon_status tenon_profile_start(void);
/* The profile as JSON: a trace in Chrome's format ("traceEvents": compilations, plans, runs and steps) with one more key,
 * "programs": per program and sizes its runs and steps, each with back end, ops, the sum of its seconds, its fastest
 * run, bytes and operations. docs/microbenchmarks.md describes it. Valid until this thread's next tenon_profile_stop.
 * TENON_INVALID if none is being recorded. */
TENON_API tenon_status tenon_profile_stop(const char** text, size_t* length);
/* For the host's own profiler: the library calls begin before each step of every run, and end after it, on the thread of the
 * run; several threads may call at once. name is "tenon::" and the ops of the step, "tenon::matmul+gelu", cut at 80 bytes,
 * or "tenon::copies to updated inputs"; it is valid during the call. On a device, the step is launched between the calls.
 * The process has one observer: a call replaces the former one, and two NULLs remove it. Runs that have begun keep calling
 * the former functions, so user must stay valid until they return. The functions may call tenon_observe_steps, and no other
 * function of Tenon. TENON_INVALID if exactly one function is NULL. Any thread. */
TENON_API tenon_status tenon_observe_steps(void (*begin)(void* user, const char* name),
                                           void (*end)(void* user), void* user);

typedef struct tenon_program_stats {
  size_t struct_size;
  int64_t nodes;            /* nodes in groups: what the optimised graph has left to run */
  int64_t nodes_fused;      /* nodes that share a group with another node */
  int64_t kernels;          /* kernels and library calls per run */
  int64_t kernels_compiled; /* kernels that the compiler compiled for this program */
  int64_t steps;
  int64_t workspace_bytes; /* of the newest plan: intermediates and scratch memory */
  int64_t plans;
  int64_t plan_hits;
  double compile_ms; /* time of optimising, compiling and packing */
  /* Counted since the last tenon_program_update_params: */
  int64_t plan_misses;     /* sizes that needed a new plan, including refused ones */
  int64_t plan_waits;      /* runs that waited while another thread made their plan */
  int64_t plan_evictions;  /* plans dropped to stay within the limits */
  int64_t plan_bytes;      /* bytes that plans hold, approximately */
  double plan_ms;          /* time spent making plans */
  int64_t reserved1;       /* always 0 */
  int64_t reserved2;       /* always 0 */
  int64_t reference_steps; /* steps of the back end "reference"; 0 unless the host names it */
} tenon_program_stats;
TENON_API tenon_status tenon_program_get_stats(tenon_program* program, tenon_program_stats* out);
TENON_API void tenon_program_retain(tenon_program* program);
TENON_API void tenon_program_release(tenon_program* program);

/* ---- kernels and optimised graphs on disk (docs/cache.md) ---- */

typedef struct tenon_cache_stats {
  size_t struct_size;
  const char* directory; /* "" if none is used. Valid for the life of the process, as is `off` */
  const char* off;       /* why the cache is off; "" if it is on */
  /* Counts of this process: */
  int64_t hits;    /* entries taken from the directory: kernels and graphs */
  int64_t misses;  /* entries that were absent or unusable */
  int64_t refused; /* misses of a file that is damaged, holds another entry, or is for another machine */
  int64_t damaged; /* refused files that no machine can use */
  int64_t writes;  /* entries stored */
  int64_t failed_writes; /* entries compiled but not stored, for example on a full or read-only disk */
  int64_t removed;       /* files removed: unusable ones, and the least recently used ones beyond the limit */
  int64_t bytes_read;
  int64_t bytes_written;
} tenon_cache_stats;
/* Set out->struct_size before the call. */
TENON_API tenon_status tenon_cache_get_stats(tenon_cache_stats* out);

#ifdef __cplusplus
}
#endif

#endif /* TENON_TENON_H_ */
