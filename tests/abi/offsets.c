/* The offset of every field of every public structure, for all of major version 0. A line is added together with its field
 * and never changed. The file is compiled with the current header and with the frozen one, which lacks later fields.
 * tests/abi/abi_test.py checks that every field has its line. Structures of a fixed size are DLPack's. */
#ifdef TENON_FROZEN
#include TENON_FROZEN
#else
#include "tenon/tenon.h"
#endif

#define LOCK(structure, field, offset) \
  _Static_assert(offsetof(structure, field) == (offset), #structure "." #field " has moved")
#define SIZE(structure, bytes) _Static_assert(sizeof(structure) == (bytes), #structure " has another size")
#define VALUE(constant, number) _Static_assert((constant) == (number), #constant " has another value")

LOCK(tenon_device, type, 0);
LOCK(tenon_device, id, 4);
SIZE(tenon_device, 8);

LOCK(tenon_dtype, code, 0);
LOCK(tenon_dtype, bits, 1);
LOCK(tenon_dtype, lanes, 2);
SIZE(tenon_dtype, 4);

LOCK(tenon_tensor, data, 0);
LOCK(tenon_tensor, device, 8);
LOCK(tenon_tensor, ndim, 16);
LOCK(tenon_tensor, dtype, 20);
LOCK(tenon_tensor, shape, 24);
LOCK(tenon_tensor, strides, 32);
LOCK(tenon_tensor, byte_offset, 40);
SIZE(tenon_tensor, 48);

LOCK(tenon_context_options, struct_size, 0);
LOCK(tenon_context_options, log, 8);
LOCK(tenon_context_options, log_user, 16);
LOCK(tenon_context_options, parallel_for, 24);
LOCK(tenon_context_options, parallel_user, 32);
LOCK(tenon_context_options, num_threads, 40);
LOCK(tenon_context_options, alloc, 48);
LOCK(tenon_context_options, free, 56);
LOCK(tenon_context_options, allocator_user, 64);
#ifndef TENON_FROZEN
LOCK(tenon_context_options, device_alloc, 72);
LOCK(tenon_context_options, device_free, 80);
LOCK(tenon_context_options, device_allocator_user, 88);
#endif

LOCK(tenon_op_info, struct_size, 0);
LOCK(tenon_op_info, name, 8);
LOCK(tenon_op_info, kind, 16);
LOCK(tenon_op_info, attrs, 24);
LOCK(tenon_op_info, doc, 32);
LOCK(tenon_op_info, arity, 40);
LOCK(tenon_op_info, optional, 44);
LOCK(tenon_op_info, ulp, 48);
#ifndef TENON_FROZEN
LOCK(tenon_op_info, to_bool, 56);
LOCK(tenon_op_info, fault, 60);
#endif

LOCK(tenon_op_desc, struct_size, 0);
LOCK(tenon_op_desc, name, 8);
LOCK(tenon_op_desc, arity, 16);
LOCK(tenon_op_desc, attrs, 24);
LOCK(tenon_op_desc, body, 32);
LOCK(tenon_op_desc, doc, 40);

LOCK(tenon_input_options, struct_size, 0);
LOCK(tenon_input_options, param, 8);
LOCK(tenon_input_options, strides, 16);
LOCK(tenon_input_options, symbol, 24);

#ifndef TENON_FROZEN
LOCK(tenon_input_options, donated, 32);

LOCK(tenon_gradient_options, struct_size, 0);
LOCK(tenon_gradient_options, targets, 8);
LOCK(tenon_gradient_options, n_targets, 16);
LOCK(tenon_gradient_options, wrt, 24);
LOCK(tenon_gradient_options, n_wrt, 32);
LOCK(tenon_gradient_options, heads, 40);
LOCK(tenon_gradient_options, keep_outputs, 44);

LOCK(tenon_symbol_entry, node, 0);
LOCK(tenon_symbol_entry, output, 8);

LOCK(tenon_symbol_options, struct_size, 0);
LOCK(tenon_symbol_options, training, 8);
LOCK(tenon_symbol_options, min_nodes, 12);
LOCK(tenon_symbol_options, op_names, 16);

LOCK(tenon_symbol_input, struct_size, 0);
LOCK(tenon_symbol_input, name, 8);
LOCK(tenon_symbol_input, dtype, 16);
LOCK(tenon_symbol_input, dims, 24);
LOCK(tenon_symbol_input, param, 32);
#endif

LOCK(tenon_program_options, struct_size, 0);
LOCK(tenon_program_options, freeze, 8);
LOCK(tenon_program_options, num_threads, 12);
LOCK(tenon_program_options, context, 16);
LOCK(tenon_program_options, max_plans, 24);
LOCK(tenon_program_options, max_plan_bytes, 32);
#ifndef TENON_FROZEN
LOCK(tenon_program_options, reserved1, 40);
LOCK(tenon_program_options, verify, 44);
#ifndef TENON_FROZEN
LOCK(tenon_program_options, device, 48);
LOCK(tenon_program_options, device_graphs, 56);
LOCK(tenon_program_options, reserved2, 60);
LOCK(tenon_program_options, memory_budget_bytes, 64);
#endif
#endif

#ifndef TENON_FROZEN
LOCK(tenon_run_host, struct_size, 0);
LOCK(tenon_run_host, user, 8);
LOCK(tenon_run_host, allocate, 16);
LOCK(tenon_run_host, release, 24);
#endif

LOCK(tenon_program_stats, struct_size, 0);
LOCK(tenon_program_stats, nodes, 8);
LOCK(tenon_program_stats, nodes_fused, 16);
LOCK(tenon_program_stats, kernels, 24);
LOCK(tenon_program_stats, kernels_compiled, 32);
LOCK(tenon_program_stats, steps, 40);
LOCK(tenon_program_stats, workspace_bytes, 48);
LOCK(tenon_program_stats, plans, 56);
LOCK(tenon_program_stats, plan_hits, 64);
LOCK(tenon_program_stats, compile_ms, 72);
LOCK(tenon_program_stats, plan_misses, 80);
LOCK(tenon_program_stats, plan_waits, 88);
LOCK(tenon_program_stats, plan_evictions, 96);
LOCK(tenon_program_stats, plan_bytes, 104);
LOCK(tenon_program_stats, plan_ms, 112);
#ifndef TENON_FROZEN
LOCK(tenon_program_stats, reserved1, 120);
LOCK(tenon_program_stats, reserved2, 128);
LOCK(tenon_program_stats, reference_steps, 136);
#endif

LOCK(tenon_cache_stats, struct_size, 0);
LOCK(tenon_cache_stats, directory, 8);
LOCK(tenon_cache_stats, off, 16);
LOCK(tenon_cache_stats, hits, 24);
LOCK(tenon_cache_stats, misses, 32);
LOCK(tenon_cache_stats, refused, 40);
LOCK(tenon_cache_stats, damaged, 48);
LOCK(tenon_cache_stats, writes, 56);
LOCK(tenon_cache_stats, failed_writes, 64);
LOCK(tenon_cache_stats, removed, 72);
LOCK(tenon_cache_stats, bytes_read, 80);
LOCK(tenon_cache_stats, bytes_written, 88);

VALUE(TENON_OK, 0);
VALUE(TENON_INVALID, 1);
VALUE(TENON_UNSUPPORTED, 2);
VALUE(TENON_ENVIRONMENT, 3);
VALUE(TENON_INTERNAL, 4);
VALUE(TENON_NTS, SIZE_MAX);
VALUE(TENON_NO_VALUE, UINT32_MAX);
VALUE(sizeof(tenon_status), 4);
VALUE(sizeof(tenon_value), 4);
