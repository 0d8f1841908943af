// Spec: a group in terms of the library, while sizes are still symbols: one root (matmul, convolution, ...) and the maps behind it
// as post-ops. Operands are read in place: each has a buffer, an offset and strides. library.h finds out whether the library has a
// fast implementation. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/ops/rules/operand.h"

namespace tenon::onednn {

inline bool all_are(std::span<const int64_t> sizes, int64_t n) {
  return std::ranges::all_of(sizes, [n](int64_t size) { return size == n; });
}

// A map that the library computes wrongly for some operands: relu or gelu by erf, then the minimum with a number.
struct Redone {
  OpId map{};
  std::optional<float> most = {};
};

struct PostOp {
  dnnl::algorithm algorithm{};
  float alpha = 0, beta = 0;
  int operand = -1;  // index into Spec::operands, of the output's rank; -1: an activation
  std::string name;
  std::optional<Redone> redone = {};  // see redone()
};

// weight_gradient: the source is x, the weights stand for dy, and the output has the axes of weights.
enum class Form { matmul, convolution, deconvolution, weight_gradient, average, pointwise };

struct Spec {
  Form form = Form::matmul;
  std::string name;               // the name of the root's row
  std::vector<Operand> operands;  // source, weights if the form has them, then the operands of post-ops
  Operand output;
  std::vector<PostOp> post_ops;
  bool channels_last = false;
  Dims kernel, strides, low, high, dilations;
  Dim groups = 1;
  bool include_pad = true;
};

// The map that the spec ends in, if the library turns infinities into NaN there. The step looks for NaN in the result; if it finds
// one, it runs the spec without this map and computes the map itself (exact_map.h). No post-op follows such a map.
// Relu is given to the library as hardswish, x * clamp(3e38 x, 0, 1). This keeps NaN, which the library's relu loses, and is exact
// except for subnormals and minus infinity. The minimum of relu and a number is clip(-1, number) after it: the library's clip
// turns NaN into -1, which no other element has. Gelu by erf turns infinity into NaN in the library's code for AVX-512.
std::optional<Redone> redone(const Spec& spec);
Spec without_redone(Spec spec);

// The post-op that computes this node, if it is an activation; otherwise nothing. Activations that lose NaN in the library are
// left out.
std::optional<PostOp> activation(const Node& node);
// Members are in topological order, the root first. unsupported, with the reason: the library cannot express them.
Result<Spec> make_spec(const Graph& graph, std::span<const ValueId> members, const StridesOf& strides_of);

}  // namespace tenon::onednn
