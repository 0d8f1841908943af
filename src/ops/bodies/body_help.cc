// See body_help.h.
#include "src/ops/bodies/body_help.h"

#include "src/ops/rules/rules.h"

namespace tenon::bodies {

ValueId fold(Builder& b, OpId row, ValueId v, const Dims& axes) {
  return b(row, {v}, {{"axes", axes}, {"keepdims", true}});
}

Dim folded(Builder& b, ValueId v, const Dims& axes) {
  const Dims& shape = b.shape(v);
  std::vector<int64_t> listed;
  for (Dim axis : axes) listed.push_back(axis.value());
  const auto flags = axis_flags(listed, static_cast<int>(shape.size()));
  TENON_CHECK(flags.ok(), flags.status().message());
  Dim product(1);
  for (size_t i = 0; i < shape.size(); ++i)
    if ((*flags)[i]) product = b.dims().mul(product, shape[i]);
  return product;
}

ValueId average(Builder& b, ValueId v, const Dims& axes) {
  return b(ops::div, {fold(b, ops::sum, v, axes), count(b, v, folded(b, v, axes))});
}

ValueId along(Builder& b, ValueId vector, int rank, int axis) {
  Dims shape(rank, Dim(1));
  shape[axis] = b.shape(vector)[0];
  return b.reshape(vector, std::move(shape));
}

Dims to_channels_first(int rank) {
  Dims perm = {Dim(0), Dim(rank - 1)};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(Dim(i));
  return perm;
}

Dims to_channels_last(int rank) {
  Dims perm = {Dim(0)};
  for (int i = 2; i < rank; ++i) perm.push_back(Dim(i));
  perm.push_back(Dim(1));
  return perm;
}

bool is_channels_last(const Node& node) { return attr_as<std::string>(node, "layout") == "channels_last"; }

ValueId transpose_last(Builder& b, ValueId v) {
  const int rank = b.type(v).rank();
  Dims perm;
  for (int i = 0; i < rank - 2; ++i) perm.push_back(Dim(i));
  perm.push_back(Dim(rank - 1));
  perm.push_back(Dim(rank - 2));
  return transpose(b, v, std::move(perm));
}

Node with_layout(const Node& node, const std::string& layout) {
  Node copy = node;
  const auto& specs = op(node.op).attr_specs;
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name == "layout") copy.attrs[i] = layout;
  return copy;
}

Node channels_first(Builder& b, const Node& node) {
  Node copy = with_layout(node, "channels_first");
  const ValueId x = node.inputs[0];
  copy.inputs[0] = b(ops::transpose, {x}, {{"perm", to_channels_first(b.type(x).rank())}});
  return copy;
}

}  // namespace tenon::bodies
