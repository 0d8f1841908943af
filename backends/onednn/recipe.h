// Recipe: a group in the library's words while sizes are symbols: one root (matmul, convolution, ...) and the maps
// behind it as post-ops. Operands are read in place: buffer, offset and strides. Whether the library has a fast
// implementation is not asked here (library.h). Tested by tests/onednn_test.cc.
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
  int operand = -1;  // in Recipe::operands, of the output's rank; -1: an activation
  std::string name;
  bool relu = false;  // see ends_in_relu()
};

enum class Form { matmul, convolution, deconvolution, average, pointwise };

struct Recipe {
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

// Relu is said as x * clamp(3e38 x, 0, 1), which keeps NaN, as the library's relu does not. It is exact but for subnormals, and for
// minus infinity, of which it makes NaN: whoever runs a call that ends so looks for NaN and takes relu by himself then
// (exact_relu.h). It is the last of its call.
bool ends_in_relu(const Recipe& recipe);
Recipe without_relu(Recipe recipe);

// The activation that a node alone is, or nothing. Those that lose NaN in the library are not among them.
std::optional<PostOp> activation(const Node& node);
// Members in topological order, the root first. unsupported, with the reason, when the library has no words for them.
Result<Recipe> make_recipe(const Graph& graph, std::span<const ValueId> members, const StridesOf& strides_of);

}  // namespace tenon::onednn
