// See pipeline.h.
#include "jit/pipeline.h"

#include <algorithm>

#include "jit/analysis/transposing.h"
#include "jit/transform/blocked_column_sums.h"
#include "jit/transform/cpu/direct_stores.h"
#include "jit/transform/cpu/join_pieces.h"
#include "jit/transform/cpu/long_sums.h"
#include "jit/transform/cpu/split_walks.h"
#include "jit/transform/cpu/stores_in_folds.h"
#include "jit/transform/cpu/tile.h"
#include "jit/transform/cpu/unroll_short_loops.h"
#include "jit/transform/gpu/join_online_reductions.h"
#include "jit/transform/gpu/use_complements.h"
#include "jit/transform/kernel_fission.h"
#include "jit/transform/split_reduction.h"
#include "src/base/log.h"
#include "src/base/text.h"

namespace tenon::jit {
namespace {

// Dumps a kernel that a pass made, if TENON_DUMP asks for it.
Kernel after(std::string_view pass, Kernel kernel) {
  if (dump_wanted(pass)) dump(pass, print(kernel));
  return kernel;
}

using Kernels = std::vector<LoweredKernel>;

Kernels after(std::string_view pass, Kernels kernels, bool trial) {
  if (!trial)
    for (LoweredKernel& k : kernels) k.kernel = after(pass, std::move(k.kernel));
  return kernels;
}

// Splits few long rows of a softmax too, after their reductions are joined into one.
Kernels split_for_gpu(const LoweredKernel& kernel, DimTable& dims, bool trial) {
  Kernels parts = split_reduction(kernel, dims, Target::gpu);
  if (parts.size() > 1) return parts;
  if (auto joined = join_online_reductions(kernel.kernel)) {
    LoweredKernel online = kernel;
    online.kernel = std::move(*joined);
    Kernels split = split_reduction(online, dims, Target::gpu);
    if (split.size() > 1) {
      after("join_online_reductions", {std::move(online)}, trial);
      return split;
    }
  }
  return parts;
}

// The kernels of a group with sums beside rows.
Result<Kernels> add_up_beside(const LowerInput& in, Kernels kernels, bool trial) {
  if (kernels.size() > 1) return unsupported("sums beside rows that are cut in pieces");
  TENON_ASSIGN(Kernels blocks, blocked_column_sums(std::move(kernels[0]), in));
  return after("blocked_column_sums", std::move(blocks), trial);
}

Result<Kernels> in_parts_for_gpu(const Kernels& kernels, DimTable& dims, bool trial) {
  Kernels result;
  for (const LoweredKernel& k : kernels) {
    if (walks_again(k, dims)) return unsupported("on a GPU columns and channels are walked along once");
    std::ranges::move(after("split_reduction", split_for_gpu(k, dims, trial), trial),
                      std::back_inserter(result));
  }
  return result;
}

Result<Kernels> in_parts_for_cpu(const LowerInput& in, Kernels kernels, bool trial) {
  DimTable& dims = *in.graph.dims;
  Kernels walks, result;
  for (LoweredKernel& k : kernels) k = direct_stores(std::move(k));
  kernels = after("direct_stores", std::move(kernels), trial);
  for (LoweredKernel& k : kernels) k = stores_in_folds(std::move(k));
  for (LoweredKernel& k : after("stores_in_folds", std::move(kernels), trial)) {
    if (walks_apart_again(k))
      return unsupported("columns whose rows are several loops are walked along once");
    std::ranges::move(after("split_walks", split_walks(k, dims), trial), std::back_inserter(walks));
  }
  if (in.short_rows) return walks;
  for (LoweredKernel& k : walks)
    std::ranges::move(after("split_reduction", split_reduction(k, dims, Target::cpu), trial),
                      std::back_inserter(result));
  for (LoweredKernel& k : result) k = long_sums(std::move(k), dims);
  return after("long_sums", std::move(result), trial);
}

// Cuts kernels so that all threads have work.
Result<Kernels> in_parts(const LowerInput& in, Kernels kernels, bool trial) {
  if (!in.sums.empty()) return add_up_beside(in, std::move(kernels), trial);
  return in.target == Target::gpu ? in_parts_for_gpu(kernels, *in.graph.dims, trial)
                                  : in_parts_for_cpu(in, std::move(kernels), trial);
}

Kernels in_tiles_for_cpu(Kernels kernels, bool trial) {
  for (LoweredKernel& k : kernels) k.kernel = tile_columns(std::move(k.kernel), k.sizes);
  kernels = after("tile_columns", std::move(kernels), trial);
  for (LoweredKernel& k : kernels) k.kernel = tile_transposed(std::move(k.kernel), k.sizes);
  kernels = after("tile_transposed", std::move(kernels), trial);
  for (LoweredKernel& k : kernels) k.kernel = tile_rows(std::move(k.kernel), k.sizes);
  kernels = after("tile_rows", std::move(kernels), trial);
  kernels = after("join_pieces", join_pieces(std::move(kernels)), trial);
  if (trial) return kernels;  // fusion counts the accesses of loops
  for (LoweredKernel& k : kernels) k.kernel = unroll_short_loops(std::move(k.kernel), k.sizes);
  return after("unroll_short_loops", std::move(kernels), trial);
}

Result<Kernels> kernels_of(const LowerInput& input, bool trial) {
  LowerInput in = input;
  in.sums = sums_beside_rows(in);
  TENON_ASSIGN(Lowered lowered, lower(in));
  TENON_ASSIGN(Kernels kernels, in_parts(in, after("lower", std::move(lowered.loops), trial), trial));
  if (in.target == Target::cpu) kernels = in_tiles_for_cpu(std::move(kernels), trial);
  std::ranges::move(lowered.updates, std::back_inserter(kernels));
  for (const LoweredKernel& k : kernels)
    for (Dim d : k.sizes)
      if (in.graph.dims->is_overflow(d)) return unsupported("a size of the loops does not fit in 64 bits");
  if (kernels.size() > 1)
    for (size_t i = 0; i < kernels.size(); ++i) kernels[i].kernel.name += "_" + std::to_string(i);
  return kernels;
}

std::string_view name_of(CudaRewrite rewrite) {
  return rewrite == CudaRewrite::merge_map ? "merge_map" : "join_online_reductions";
}

// ---- single passes, on text ----

// Makes a LoweredKernel of a kernel without a group: its sizes are symbols of their names, its buffers are
// values 0, 1, ...
LoweredKernel alone(const Kernel& kernel, DimTable& dims) {
  LoweredKernel lowered;
  lowered.kernel = kernel;
  for (const std::string& size : kernel.sizes) lowered.sizes.push_back(dims.symbol(size));
  for (const Buffer& b : kernel.buffers)
    if (b.role != Buffer::Role::local)
      lowered.buffers.push_back(static_cast<ValueId>(lowered.buffers.size()));
  return lowered;
}

std::vector<Kernel> kernels_in(Kernels lowered) {
  std::vector<Kernel> kernels;
  for (LoweredKernel& k : lowered) kernels.push_back(std::move(k.kernel));
  return kernels;
}

std::vector<Kernel> one(std::optional<Kernel> changed, const Kernel& kernel) {
  return {changed ? std::move(*changed) : kernel};
}

struct Pass {
  std::string_view name;
  std::vector<Kernel> (*run)(const Kernel& kernel, DimTable& dims);
};

constexpr Pass kPasses[] = {
    {"direct_stores",
     [](const Kernel& k, DimTable& dims) { return std::vector{direct_stores(alone(k, dims)).kernel}; }},
    {"stores_in_folds",
     [](const Kernel& k, DimTable& dims) { return std::vector{stores_in_folds(alone(k, dims)).kernel}; }},
    {"split_walks",
     [](const Kernel& k, DimTable& dims) { return kernels_in(split_walks(alone(k, dims), dims)); }},
    {"split_reduction",
     [](const Kernel& k, DimTable& dims) {
       return kernels_in(split_reduction(alone(k, dims), dims, Target::cpu));
     }},
    {"split_reduction_gpu",
     [](const Kernel& k, DimTable& dims) {
       return kernels_in(split_for_gpu(alone(k, dims), dims, /*trial=*/true));
     }},
    {"long_sums",
     [](const Kernel& k, DimTable& dims) { return std::vector{long_sums(alone(k, dims), dims).kernel}; }},
    {"tile_columns",
     [](const Kernel& k, DimTable& dims) { return one(tile_columns(k, alone(k, dims).sizes), k); }},
    {"tile_transposed",
     [](const Kernel& k, DimTable& dims) { return one(tile_transposed(k, alone(k, dims).sizes), k); }},
    {"tile_rows", [](const Kernel& k, DimTable& dims) { return one(tile_rows(k, alone(k, dims).sizes), k); }},
    {"unroll_short_loops",
     [](const Kernel& k, DimTable& dims) { return one(unroll_short_loops(k, alone(k, dims).sizes), k); }},
    {"merge_map", [](const Kernel& k, DimTable&) { return one(merge_map(k), k); }},
    {"join_online_reductions", [](const Kernel& k, DimTable&) { return one(join_online_reductions(k), k); }},
    {"kernel_fission",
     [](const Kernel& k, DimTable& dims) {
       auto halves = kernel_fission(alone(k, dims), dims);
       if (!halves) return std::vector{k};
       return std::vector{std::move(halves->first.kernel), std::move(halves->second.kernel)};
     }},
    {"use_complements", [](const Kernel& k, DimTable&) { return one(use_complements(k), k); }},
    {"expand_math", [](const Kernel& k, DimTable&) { return one(legalize_for_llvm(k), k); }},
};

}  // namespace

Result<Kernels> make_kernels(const LowerInput& input, bool trial) {
  Result<Kernels> kernels = kernels_of(input, trial);
  if (kernels.ok() || !is_dense_reshape(input, input.outputs[0])) return kernels;
  LowerInput in = input;
  in.under_operand_shape = true;
  Result<Kernels> under = kernels_of(in, trial);
  return under.ok() ? std::move(under) : std::move(kernels);
}

KernelVariant cuda_variant(std::shared_ptr<const Kernel> kernel, std::span<const int64_t> sizes,
                           const CudaDevice& device, int64_t alignment, int64_t longest_buffer,
                           int relax_level) {
  KernelVariant v{std::move(kernel), {}, {}, {}};
  bool joined = false;
  for (;;) {
    const CudaDecision next =
        cuda_schedule(*v.kernel, sizes, device, alignment, longest_buffer, relax_level, joined);
    if (const CudaSchedule* schedule = std::get_if<CudaSchedule>(&next)) {
      v.schedule = *schedule;
      break;
    }
    const CudaRewrite rewrite = std::get<CudaRewrite>(next);
    joined = joined || rewrite == CudaRewrite::join_online_reductions;
    auto changed =
        rewrite == CudaRewrite::merge_map ? merge_map(*v.kernel) : join_online_reductions(*v.kernel);
    if (!changed) continue;
    v.kernel = std::make_shared<const Kernel>(after(name_of(rewrite), std::move(*changed)));
    v.passes.push_back(name_of(rewrite));
  }
  v.launch = cuda_launch(*v.kernel, v.schedule, sizes, device);
  return v;
}

bool same_code(const KernelVariant& a, const KernelVariant& b) {
  return a.passes == b.passes && a.schedule == b.schedule;
}

std::string describe(const KernelVariant& variant) {
  std::string text = describe(variant.schedule);
  for (std::string_view pass : variant.passes)
    text += (pass == variant.passes[0] ? " after " : ", ") + std::string(pass);
  return text;
}

std::optional<std::pair<LoweredKernel, LoweredKernel>> fission(const LoweredKernel& kernel, DimTable& dims) {
  auto halves = kernel_fission(kernel, dims);
  if (!halves) return halves;
  for (LoweredKernel* half : {&halves->first, &halves->second})
    half->kernel = after("kernel_fission", std::move(half->kernel));
  return halves;
}

Kernel legalize(const Kernel& kernel, bool (*spelled)(const Op& row, DType last), bool approximate) {
  Kernel legal = approximate ? after("use_complements", use_complements(kernel)) : kernel;
  expand_math(legal, spelled);
  return after("expand_math", std::move(legal));
}

Kernel legalize_for_llvm(const Kernel& kernel) {
  Kernel legal = kernel;
  expand_math(legal);
  return after("expand_math", std::move(legal));
}

Result<std::string> run_kernel_pass(std::string_view pass, std::string_view text) {
  const auto found = std::ranges::find(kPasses, pass, &Pass::name);
  if (found == std::end(kPasses)) {
    Nearest nearest(pass);
    for (const Pass& p : kPasses) nearest.offer(p.name);
    return invalid(nearest.message("kernel pass"));
  }
  TENON_ASSIGN(const Kernel kernel, parse_kernel(text));
  TENON_TRY(verify(kernel));
  DimTable dims;
  std::string result;
  for (const Kernel& k : found->run(kernel, dims)) {
    TENON_TRY(verify(k));
    result += print(k);
  }
  return result;
}

}  // namespace tenon::jit
