// See few_channels.h.
#include "backends/onednn/few_channels.h"

#include <algorithm>
#include <string>

#include "backends/onednn/operands.h"
#include "backends/onednn/spec.h"
#include "src/base/align.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/windows.h"

namespace tenon::onednn {
namespace {

constexpr int64_t kMostChannels = 8, kMostOfPointwise = 4, kMostOfPointwise16 = 1;
constexpr int64_t kMostBlocks = 8;     // that are summed for an element
constexpr int64_t kLeastColumns = 16;  // of the product; the library has no fast code for fewer

bool are_known(const Dims& dims) {
  return std::ranges::all_of(dims, [](Dim d) { return d.is_const() && d.value() > 0; });
}

int64_t blocks_of(Dim window, Dim step) { return ceil_div(window.value(), step.value()); }

// Sums the blocks of cols [N, P.., O, m1, s1, m2, s2, ..]: [N, Q.., O, s1, s2, ..], where Q is P + m - 1.
ValueId sum_of_blocks(Builder& b, ValueId cols, const std::vector<int64_t>& blocks) {
  const size_t axes = blocks.size(), first = axes + 2;
  const Dims shape = b.shape(cols);
  Dims of_block(shape.begin(), shape.begin() + static_cast<long>(first));
  for (size_t i = 0; i < axes; ++i) of_block.push_back(shape[first + 2 * i + 1]);
  int64_t count = 1;
  for (const int64_t m : blocks) count *= m;
  ValueId sum = kNoValue;
  for (int64_t block = 0; block < count; ++block) {
    ValueId part = cols;
    Dims low(of_block.size(), Dim(0)), high = low;
    int64_t rest = block;
    for (size_t i = axes; i-- > 0; rest /= blocks[i]) {
      const int64_t j = rest % blocks[i];
      low[i + 1] = Dim(j);
      high[i + 1] = Dim(blocks[i] - 1 - j);
      if (blocks[i] > 1)
        part =
            b(ops::slice, {part},
              {{"axis", Dim(static_cast<int64_t>(first + 2 * i))}, {"start", Dim(j)}, {"end", Dim(j + 1)}});
    }
    part = b.reshape(part, of_block);
    if (count > 1) part = b(ops::pad, {part}, {{"low", low}, {"high", high}});
    sum = sum == kNoValue ? part : b(ops::add, {sum, part});
  }
  return sum;
}

}  // namespace

bool is_pointwise_to_few(const Graph& graph, const Node& node) {
  const DType dtype = node.type.dtype;
  const int64_t most = dtype == DType::f32 ? kMostOfPointwise : is_narrow(dtype) ? kMostOfPointwise16 : 0;
  if (node.op != ops::convolution || attr_as<bool>(node, "transposed")) return false;
  const Dim channels = graph.type(node.inputs[1]).shape[0];
  return has_windows_of_one(graph, node) && channels.is_const() && channels.value() <= most;
}

bool is_product_to_few(const Graph& graph, const Node& node) {
  if ((node.op != ops::matmul && node.op != ops::linear) || node.type.dtype != DType::f32) return false;
  const Dims &x = graph.type(node.inputs[0]).shape, &matrix = graph.type(node.inputs[1]).shape;
  if (x.size() < 2 || matrix.size() != 2) return false;
  const Dim columns = node.type.shape.back(), depth = x.back();
  if (!columns.is_const() || !depth.is_const() || columns.value() < 2) return false;
  const bool few =
      (columns.value() <= 3 && depth.value() >= 64) || (columns.value() <= 5 && depth.value() >= 512);
  return few && is_dense_along(graph, node.inputs[0], x.size() - 1) &&
         is_dense_along(graph, node.inputs[1], node.op == ops::linear ? 1 : 0);
}

bool is_transposed_to_few(const Graph& graph, const Node& node) {
  if (node.op != ops::convolution || !attr_as<bool>(node, "transposed") || node.type.dtype != DType::f32 ||
      attr_as<Dim>(node, "groups") != Dim(1))
    return false;
  const Dims &weights = graph.type(node.inputs[1]).shape, &steps = attr_as<Dims>(node, "strides");
  if (!are_known({weights.begin() + 1, weights.end()}) || !are_known(steps)) return false;
  if (!all_are(attr_as<Dims>(node, "dilations"), 1)) return false;
  int64_t columns = weights[1].value(), blocks = 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    columns *= weights[i + 2].value();
    blocks *= blocks_of(weights[i + 2], steps[i]);
    if (blocks > kMostBlocks) return false;
  }
  return weights[1].value() <= kMostChannels && columns >= kLeastColumns;
}

ValueId by_product(Builder& b, const Node& node) {
  const bool last = attr_as<std::string>(node, "layout") == "channels_last";
  const Dims &steps = attr_as<Dims>(node, "strides"), &padding = attr_as<Dims>(node, "padding");
  const Dims x_shape = b.shape(node.inputs[0]), weights = b.shape(node.inputs[1]);
  const size_t axes = steps.size();
  const Dim batch = x_shape[0], channels = weights[0], made = weights[1];
  DimTable& dims = b.dims();

  // Windows become whole blocks.
  std::vector<int64_t> blocks;
  Dims longer(axes + 2, Dim(0));
  Dim columns = made;
  for (size_t i = 0; i < axes; ++i) {
    blocks.push_back(blocks_of(weights[i + 2], steps[i]));
    longer[i + 2] = Dim(blocks[i] * steps[i].value() - weights[i + 2].value());
    columns = Dim(columns.value() * blocks[i] * steps[i].value());
  }
  ValueId w = node.inputs[1];
  if (!all_are(longer, 0)) w = b(ops::pad, {w}, {{"low", Dims(axes + 2, Dim(0))}, {"high", longer}});
  w = b.reshape(w, {channels, columns});

  // Pixels by weights.
  ValueId x = node.inputs[0];
  if (!last) {
    Dims perm{Dim(0)};
    for (size_t i = 0; i < axes; ++i) perm.push_back(Dim(static_cast<int64_t>(i) + 2));
    perm.push_back(Dim(1));
    x = b(ops::transpose, {x}, {{"perm", perm}});
  }
  const Dims pixels_last = b.shape(x);
  const Dims pixels(pixels_last.begin() + 1, pixels_last.end() - 1);
  const ValueId products = b(ops::matmul, {b.reshape(x, {batch, dims.product(pixels), channels}), w});
  Dims split{batch};
  split.insert(split.end(), pixels.begin(), pixels.end());
  split.push_back(made);
  for (size_t i = 0; i < axes; ++i) split.insert(split.end(), {Dim(blocks[i]), steps[i]});
  const ValueId sum = sum_of_blocks(b, b.reshape(products, split), blocks);

  // [N, Q.., O, s..] becomes the image; then its edges are cut, or get zeros.
  const Dims summed = b.shape(sum);
  Dims perm{Dim(0)}, image{batch}, low(axes + 2, Dim(0)), high = low;
  const auto put_channels = [&] {
    perm.push_back(Dim(static_cast<int64_t>(axes) + 1));
    image.push_back(made);
  };
  if (!last) put_channels();
  for (size_t i = 0; i < axes; ++i) {
    const auto at = static_cast<int64_t>(i);
    perm.insert(perm.end(), {Dim(at + 1), Dim(at + 2 + static_cast<int64_t>(axes))});
    image.push_back(dims.mul(summed[i + 1], steps[i]));
    const size_t axis = i + (last ? 1 : 2);
    low[axis] = dims.sub(Dim(0), padding[i]);
    high[axis] = dims.sub(dims.add(node.type.shape[axis], padding[i]), image.back());
  }
  if (last) put_channels();
  ValueId y = b.reshape(b(ops::transpose, {sum}, {{"perm", perm}}), image);
  if (!all_are(low, 0) || !all_are(high, 0)) y = b(ops::pad, {y}, {{"low", low}, {"high", high}});
  if (node.inputs.size() < 3) return y;
  Dims of_bias(last ? 1 : axes + 1, Dim(1));
  of_bias[0] = made;
  return b(ops::add, {y, b.reshape(node.inputs[2], of_bias)});
}

}  // namespace tenon::onednn
