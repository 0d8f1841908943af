// Spec: a group in the library's words while sizes are symbols: one root (matmul, convolution, ...) and the maps
// behind it as post-ops. Operands are read in place: buffer, offset and strides. Whether the library has a fast
// implementation is not asked here (library.h). Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <dnnl.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/ops/operand.h"

namespace tenon::onednn {

struct PostOp {
  dnnl::algorithm algorithm{};
  float alpha = 0, beta = 0;
  int operand = -1;  // in Spec::operands, of the output's rank; -1: an activation
  std::string name;
  std::optional<OpId> redone = {};  // see redone()
};

enum class Form { matmul, convolution, deconvolution, average, pointwise };

struct Spec {
  Form form = Form::matmul;
  std::string name;               // of the root's row
  std::vector<Operand> operands;  // source, weights where the form has them, then those of the post-ops
  Operand output;
  std::vector<PostOp> post_ops;
  bool channels_last = false;
  Dims kernel, strides;
  std::vector<int64_t> low, high, dilations;
  int64_t groups = 1;
  bool include_pad = true;
};

// Relu or gelu, if the spec ends in it: of an infinity the library makes NaN there. Whoever runs the call looks for NaN, runs
// the spec without its end then, and takes the map by himself (exact_map.h). Nothing follows it in a call. Relu is said as
// x * clamp(3e38 x, 0, 1), which keeps NaN, as the library's relu does not, and is exact but for subnormals and minus
// infinity; gelu by erf makes NaN of infinity in the code for AVX-512.
std::optional<OpId> redone(const Spec& spec);
Spec without_redone(Spec spec);

// The activation that a node alone is, or nothing. Those that lose NaN in the library are not among them.
std::optional<PostOp> activation(const Node& node);
// Members in topological order, the root first. unsupported, with the reason, when the library has no words for them.
Result<Spec> make_spec(const Graph& graph, std::span<const ValueId> members, const StridesOf& strides_of);

}  // namespace tenon::onednn
