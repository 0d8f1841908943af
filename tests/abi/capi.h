/* For tests/abi/capi*.c, a host in C99 that checks the library's answers. Counters and helpers are in capi.c. Every file declares
 * its tests here, and capi.c calls them. */
#ifndef TENON_TESTS_CAPI_H_
#define TENON_TESTS_CAPI_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"

void check_at(const char* file, int line, int good, const char* what);
#define CHECK(condition) check_at(__FILE__, __LINE__, (condition) != 0, #condition)
#define OK(call) check_at(__FILE__, __LINE__, (call) == TENON_OK, #call)

/* Checks that a call failed with this status and that its message has all of the words, which are separated by |. */
void refused_at(const char* file, int line, tenon_status got, tenon_status want, const char* words,
                const char* what);
#define REFUSED(call, status, words) \
  (tenon_clear_error(), refused_at(__FILE__, __LINE__, (call), status, words, #call))
#define INVALID(call, words) REFUSED(call, TENON_INVALID, words)
#define UNSUPPORTED(call, words) REFUSED(call, TENON_UNSUPPORTED, words)

extern const tenon_dtype f32, f64, i64;
tenon_tensor tensor(void* data, tenon_dtype dtype, int32_t ndim, int64_t* shape);
tenon_graph* parse(const char* text);
tenon_status make(const char* text, tenon_program** out); /* parses and compiles; returns the first error */
tenon_program* compile(const char* text);

/* y = x w + x of f32[N,4] and f32[4]. */
extern const char kScale[];

/* An allocator of a host: the blocks that are alive, and which allocations fail. */
typedef struct heap {
  size_t blocks, bytes;
  int refuse;
  size_t asked, fail_at; /* the fail_at-th allocation fails, counted from 0 */
  int sticky;            /* 1: all later allocations fail, too */
} heap;
void* heap_alloc(void* user, size_t bytes, size_t alignment);
void heap_free(void* user, void* block, size_t bytes);

/* capi_graph.c */
void bad_text(void), prints(void), ops(void), build(void), updates(void), bad_build(void), queries(void);
/* capi_gradient.c */
void gradients(void), built_gradients(void), budget(void);
/* capi_symbol.c */
void symbols(void), param_files(void);
/* capi_run.c */
void run_and_stats(void), strided(void), freeze(void), bad_tensors(void), contexts(void), allocators(void);
void loggers(void), observers(void), hosts(void);
/* capi_faults.c */
void struct_sizes(void), every_struct_size(void), nulls(void), allocation_failures(void);
/* capi_threads.c */
void threads(void);
/* capi_sizes.c */
void sizes(void);
/* capi_cache.c */
void plan_limits(void), program_options(void), no_disk_cache(void), disk_cache(void);

/* capi_device.c; mock: the path of libcuda_mock.so; why: words of the message that states what is missing */
void device(const char* mock), no_device(const char* why);

#endif /* TENON_TESTS_CAPI_H_ */
