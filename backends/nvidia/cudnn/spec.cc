// See spec.h.
#include "backends/nvidia/cudnn/spec.h"

#include <algorithm>

#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"

namespace tenon::cudnn {
namespace {

bool is_channels_last(const Node& node) { return attr_as<std::string>(node, "layout") == "channels_last"; }

// The permutation of O, I, space to O, space, I, and the inverse.
Dims to_last(size_t rank) {
  Dims perm{Dim(0)};
  for (size_t i = 2; i < rank; ++i) perm.push_back(Dim(static_cast<int64_t>(i)));
  perm.push_back(Dim(1));
  return perm;
}
Dims to_first(size_t rank) {
  Dims perm{Dim(0), Dim(static_cast<int64_t>(rank) - 1)};
  for (size_t i = 1; i + 1 < rank; ++i) perm.push_back(Dim(static_cast<int64_t>(i)));
  return perm;
}

// The strides of a dense operand, in the axis order of the node, with the memory order that the library takes: for x the order of
// the node; for weights, which are always O, I, space in the node, the order of x.
Dims wanted_strides(DimTable& dims, const Node& node, int operand, const Dims& shape) {
  if (operand == 0 || !is_channels_last(node)) return dense_strides(dims, shape);
  Dims turned = shape;
  std::rotate(turned.begin() + 1, turned.begin() + 2, turned.end());
  Dims strides = dense_strides(dims, turned);
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return strides;
}

bool same_memory(const Dims& shape, const Dims& a, const Dims& b) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != Dim(1) && a[i] != b[i]) return false;
  return true;
}

Operand read(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of) {
  const ValueId v = node.inputs[static_cast<size_t>(operand)];
  return reads_in_place(graph, node, operand, strides_of) ? operand_of(graph, v, strides_of)
                                                          : stored_operand(graph, v);
}

void channels_second(Dims& shape) { std::rotate(shape.begin() + 1, shape.end() - 1, shape.end()); }

}  // namespace

bool reads_in_place(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of) {
  const ValueId v = node.inputs[static_cast<size_t>(operand)];
  const Dims& shape = graph.type(v).shape;
  const auto view = view_of(graph, v, strides_of);
  return view && same_memory(shape, view->strides, wanted_strides(*graph.dims, node, operand, shape));
}

Result<Spec> make_spec(const Graph& graph, ValueId convolution, const StridesOf& strides_of) {
  const Node& node = graph.node(convolution);
  Spec r;
  r.dtype = node.type.dtype;
  r.tf32 = r.dtype == DType::f32 && attr_as<bool>(node, "tf32");
  r.transposed = attr_as<bool>(node, "transposed");
  r.channels_last = is_channels_last(node);
  r.low = attr_ints(node, "padding");
  r.high = attr_ints(node, "padding_high");
  r.strides = attr_ints(node, "strides");
  r.dilations = attr_ints(node, "dilations");
  // For a transposed convolution the library sees the forward convolution, and derives the size of x from the size of y.
  const auto extra = attr_ints(node, "output_padding");
  for (size_t i = 0; i < extra.size(); ++i) {
    if (extra[i] < r.strides[i]) continue;
    r.high[i] -= extra[i];
    if (r.high[i] < 0) return unsupported("cuDNN knows no output_padding of a stride and more");
  }
  r.x = read(graph, node, 0, strides_of);
  r.w = read(graph, node, 1, strides_of);
  r.y = stored_operand(graph, convolution);
  const auto written = strides_of(convolution);
  if (written && !same_memory(r.y.shape, *written, dense_strides(*graph.dims, r.y.shape)))
    return unsupported("cuDNN cannot write its result with these strides");
  if (r.channels_last) {
    channels_second(r.x.shape);
    channels_second(r.y.shape);
  }
  return r;
}

ValueId legalize(Builder& b, Node node, const StridesOf& strides_of) {
  const size_t rank = b.shape(node.inputs[0]).size();
  for (int o = 0; o < 2; ++o) {
    if (reads_in_place(b.graph(), node, o, strides_of)) continue;
    ValueId& v = node.inputs[static_cast<size_t>(o)];
    auto copy = [&](ValueId u) { return b(ops::cast, {u}, {{"dtype", b.type(u).dtype}}); };
    if (o == 1 && is_channels_last(node)) {
      const ValueId turned = b(ops::transpose, {v}, {{"perm", to_last(rank)}});
      v = b(ops::transpose, {copy(turned)}, {{"perm", to_first(rank)}});
    } else if (!op(b.graph().node(v).op).view) {  // a view is copied when groups form
      v = copy(v);
    }
  }
  if (node.inputs.size() < 3) return b.add(std::move(node));
  ValueId bias = node.inputs[2];
  if (!is_channels_last(node)) {
    Dims along(rank, Dim(1));
    along[1] = b.shape(bias)[0];
    bias = b.reshape(bias, along);
  }
  Node alone = node;
  alone.inputs.pop_back();
  alone.name.clear();
  const ValueId y = b.add(std::move(alone));
  return b(ops::add, {y, bias});
}

}  // namespace tenon::cudnn
