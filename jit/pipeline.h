// pipeline: the kernel compiler's script, from a group of graph nodes to the kernels that emitters print. Nobody else knows the
// order. An emitter prints its kernel as it stands.
//
//   once per program    make_kernels   lower, then for each kernel:
//                                        cpu  split_reduction, tile_columns, tile_transposed
//                                        gpu  blocked_column_sums, or split_reduction; join_online_reductions in front of it where
//                                             rows are then split
//   once per sizes      cuda_variant   merge_map, join_online_reductions: where the schedule asks for them
//                       specialize     with_sizes: launches of the CPU that are hot
//   when threads spill  fission        kernel_fission: the GPU back end asks for both halves when a kernel runs out of registers
//   once per code       legalize       use_complements (approximate functions only), expand_math
//
// TENON_DUMP=PASS shows every kernel that the pass has made. Pure functions, any thread.
// Tested by tests/unit/jit/pipeline_test.cc and tests/golden/jit/*.tn.
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

// The kernels of a group in the order they run. unsupported with a sentence when no schedule covers the members. trial: the kernels
// are not kept, so nothing is dumped.
Result<std::vector<LoweredKernel>> make_kernels(const LowerInput& input, bool trial = false);

// A kernel as a GPU runs it at some sizes.
struct KernelVariant {
  std::shared_ptr<const Kernel> kernel;
  std::vector<std::string_view> passes;  // that made it from the lowered kernel
  CudaSchedule schedule;                 // of `kernel`
  CudaLaunch launch;
};
// relax_level: as in cuda_schedule().
KernelVariant cuda_variant(std::shared_ptr<const Kernel> kernel, std::span<const int64_t> sizes,
                           const CudaDevice& device, int64_t alignment = 16, int64_t longest_buffer = -1,
                           int relax_level = 0);
// Whether both, of one lowered kernel, are the same code. Launches may differ.
bool same_code(const KernelVariant& a, const KernelVariant& b);
// "row 1024x1 vector 4 whole after join_online_reductions": for logs and golden texts.
std::string describe(const KernelVariant& variant);

// The kernel with its sizes as constants. sizes: one per size of the kernel.
Kernel specialize(const Kernel& kernel, std::span<const int64_t> sizes);

// The kernel as two that run one after the other; nothing where no place is right.
std::optional<std::pair<LoweredKernel, LoweredKernel>> fission(const LoweredKernel& kernel, DimTable& dims);

// The kernel in rows that machine code has: those for which `spelled` is true, given the type of the last operand. approximate: as
// the schedule says.
Kernel legalize(const Kernel& kernel, bool (*spelled)(const Op& row, DType last), bool approximate = false);
Kernel legalize_for_llvm(const Kernel& kernel);

// Runs one pass on a kernel's text and prints the kernels it makes, for `tenon opt --kernel-pass`. invalid: there is no such pass,
// and the message names all; or the text is no valid kernel.
Result<std::string> run_kernel_pass(std::string_view pass, std::string_view kernel);

}  // namespace tenon::jit
