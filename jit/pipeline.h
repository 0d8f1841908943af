// pipeline: the script of the kernel compiler, from a group of graph nodes to the kernels that the emitters
// print. No other file knows the order of the passes. An emitter prints its kernel as it stands.
//
//   once per program    make_kernels   lower, then for each kernel:
//                                        cpu  split_walks, split_reduction, tile_columns, tile_transposed,
//                                             join_pieces
//                                        gpu  blocked_column_sums or split_reduction; join_online_reductions
//                                             runs first where this lets split_reduction split long rows
//   once per sizes      cuda_variant   merge_map, join_online_reductions: where the schedule asks for them
//   when threads spill  fission        kernel_fission: the GPU back end asks for two halves when a kernel
//                                      runs out of registers
//   once per code       legalize       use_complements (approximate functions only), expand_math
//
// TENON_DUMP=PASS prints every kernel that the pass makes. Pure functions, any thread. Tested by
// tests/unit/jit/pipeline_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/lower/lower.h"
#include "jit/schedule/cuda_schedule.h"

namespace tenon::jit {

// Returns the kernels of a group in the order in which they run. unsupported: no schedule covers the members;
// the message is a sentence. trial: the caller discards the kernels, so nothing is dumped.
Result<std::vector<LoweredKernel>> make_kernels(const LowerInput& input, bool trial = false);

// A kernel, its schedule and its launch at some sizes.
struct KernelVariant {
  std::shared_ptr<const Kernel> kernel;
  std::vector<std::string_view> passes;  // applied to the lowered kernel
  CudaSchedule schedule;                 // of `kernel`
  CudaLaunch launch;
};
// Applies the rewrites that the schedule asks for, then makes the schedule and the launch. relax_level: as in
// cuda_schedule().
KernelVariant cuda_variant(std::shared_ptr<const Kernel> kernel, std::span<const int64_t> sizes,
                           const CudaDevice& device, int64_t alignment = 16, int64_t longest_buffer = -1,
                           int relax_level = 0);
// Returns whether two variants of one lowered kernel have the same code. Their launches may differ.
bool same_code(const KernelVariant& a, const KernelVariant& b);
// Text for logs and golden files: "row 1024x1 vector 4 whole after join_online_reductions".
std::string describe(const KernelVariant& variant);

// Splits the kernel into two that run one after the other. Returns nothing if no cut is legal.
std::optional<std::pair<LoweredKernel, LoweredKernel>> fission(const LoweredKernel& kernel, DimTable& dims);

// Rewrites the kernel so that it uses only rows for which `spelled` is true, given the type of the last
// operand. approximate: as in CudaSchedule.
Kernel legalize(const Kernel& kernel, bool (*spelled)(const Op& row, DType last), bool approximate = false);
Kernel legalize_for_llvm(const Kernel& kernel);

// Runs one pass on the text of a kernel and prints the resulting kernels, for `tenon opt --kernel-pass`.
// invalid: no pass has this name (the message lists all passes), or the text is no valid kernel.
Result<std::string> run_kernel_pass(std::string_view pass, std::string_view kernel);

}  // namespace tenon::jit
