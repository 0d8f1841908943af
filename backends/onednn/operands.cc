// See operands.h.
#include "backends/onednn/operands.h"

#include "backends/onednn/steps/volumes.h"
#include "backends/onednn/steps/winograd.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"
#include "src/ops/rules/windows.h"

namespace tenon::onednn {
namespace {

// Whether the node multiplies rows that lie in short blocks with gaps between them, as those of a transposed batch, by one matrix. The
// library multiplies each block by itself, and for blocks of few rows it takes 1.3 to 5 times as long as for one product of all rows.
bool has_short_blocks(const Graph& graph, const Node& node, const Dims& strides) {
  constexpr int64_t kLong = 256;  // rows
  const Dims& shape = graph.type(node.inputs[0]).shape;
  if ((node.op != ops::linear && node.op != ops::matmul) || graph.type(node.inputs[1]).rank() != 2)
    return false;
  Dim rows(1), step;
  for (size_t i = shape.size() - 1; i-- > 0;) {
    if (shape[i] == Dim(1)) continue;
    if (rows == Dim(1)) step = strides[i];
    if (strides[i] != graph.dims->mul(step, rows)) return !rows.is_const() || rows.value() < kLong;
    rows = graph.dims->mul(rows, shape[i]);
  }
  return false;
}

// Whether the library would reorder an image whose channels lie a multiple of 4 KiB apart. The channels of one pixel share a set of the
// L1 cache, so it reads every line several times; loops store such an image in tiles, in half of the time. An image that a matrix
// multiplies pixel by pixel is read in place.
bool reorders_slowly(const Graph& graph, const Node& node, ValueId image, const Dims& strides) {
  constexpr int64_t kSet = 4096, kWays = 8;
  const bool of_weights = node.op == ops::convolution_weight_gradient;
  if (node.op != ops::convolution && !(of_weights && attr_as<Dim>(node, "groups") == Dim(1))) return false;
  if (has_windows_of_one(graph, node) && all_are(attr_as<Dims>(node, "strides"), 1)) return false;
  const auto& [dtype, shape] = graph.type(image);
  const Dim plane = strides.back(), channels = shape.back();
  return attr_as<std::string>(node, "layout") == "channels_last" && plane.is_const() && channels.is_const() &&
         plane.value() * size_of(dtype) % kSet == 0 && channels.value() > kWays;
}

// Whether the library cannot read an array with these strides: they are negative, or those of the factor of a product have no axis whose
// elements lie next to each other. The call would copy the array first, element by element.
bool is_copied(const Graph& graph, const Node& node, ValueId operand, const Dims& strides) {
  const Dims& shape = graph.type(operand).shape;
  const auto steps = [&](size_t i) {
    return shape[i] != Dim(1) && strides[i] != Dim(0) && strides[i] != Dim(1);
  };
  for (size_t i = 0; i < shape.size(); ++i)
    if (steps(i) && strides[i].is_const() && strides[i].value() < 0) return true;
  const bool is_product = node.op == ops::matmul || node.op == ops::linear || node.op == ops::int_matmul;
  return is_product && shape.size() > 1 && steps(shape.size() - 1) && steps(shape.size() - 2);
}

}  // namespace

std::optional<Dims> draft_strides(const Graph& graph, ValueId v) {
  if (op(graph.node(v).op).view || is_literal(graph, v)) return std::nullopt;
  return stored_strides(graph, v);
}

bool is_dense_along(const Graph& graph, ValueId v, size_t axis) {
  const auto view = view_of(graph, v, [&](ValueId u) { return draft_strides(graph, u); });
  return view && view->strides[axis] == Dim(1);
}

// Arrays that a call would copy are stored first. So are rows in short blocks and pixels that a slice leaves: there is one product of all
// of them only if they lie at equal distances. So are images that Winograd's step or the step of volumes reads, if their channels are not
// dense, and images that the library would reorder slowly.
bool is_read_in_place(const Graph& graph, ValueId v, ValueId operand) {
  const Node& node = graph.node(v);
  const auto view = view_of(graph, operand, [&](ValueId u) { return draft_strides(graph, u); });
  if (view && is_copied(graph, node, operand, view->strides)) return false;
  if (view && node.inputs[0] == operand && has_short_blocks(graph, node, view->strides)) return false;
  if (node.op == ops::convolution && node.inputs[0] == operand && graph.node(operand).op == ops::slice &&
      attr_as<Dim>(graph.node(operand), "step") != Dim(1))
    return false;
  const bool is_image =
      node.inputs[0] == operand || (node.op == ops::convolution_weight_gradient && node.inputs[1] == operand);
  if (!is_image || !(wants_dense_channels(graph, node) || is_depthwise_of_volumes(graph, node) ||
                     (view && reorders_slowly(graph, node, operand, view->strides))))
    return true;
  return view && view->strides.back() == Dim(1);
}

}  // namespace tenon::onednn
