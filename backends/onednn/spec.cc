// See spec.h.
#include "backends/onednn/spec.h"

#include <algorithm>
#include <limits>

#include "backends/library/epilogue.h"
#include "backends/library/operands.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"

namespace tenon::onednn {
namespace {

using dnnl::algorithm;
constexpr int kLibraryRank = 6;  // most axes of an operand here; the library's own limit is 12

constexpr float kSteepest = std::numeric_limits<float>::max();

PostOp relu() { return {algorithm::eltwise_hardswish, kSteepest, 0, -1, "relu", Redone{ops::relu}}; }

// The minimum of relu's result and a number above 0.
std::optional<PostOp> clip_after(const Graph& graph, const Redone& last, ValueId before, const Node& node) {
  if (last.map != ops::relu || last.most || node.op != ops::minimum || node.type.dtype != DType::f32 ||
      node.type.shape != graph.type(before).shape)
    return std::nullopt;
  const auto other = library::other_operand(graph, before, node, "");
  if (!other.ok() || !other->number || !(*other->number > 0)) return std::nullopt;
  const float most = static_cast<float>(*other->number);
  return PostOp{algorithm::eltwise_clip, -1, most, -1, "minimum", Redone{ops::relu, most}};
}

// Whether the library may store a product as this dtype. It adds products of 16-bit floats in f32, and computes post-ops in f32.
bool stores_as(const Spec& spec, DType dtype) {
  const DType read = spec.operands[0].dtype;
  return spec.form == Form::matmul && (read == DType::bf16 || read == DType::f16) &&
         (dtype == read || dtype == DType::f32);
}

Status append(const Graph& graph, ValueId before, ValueId v, const StridesOf& strides_of, Spec& spec) {
  const Node& node = graph.node(v);
  const Op& row = op(node.op);
  if (spec.form == Form::weight_gradient)
    return unsupported("the library has no epilogue of weight gradients");
  if (auto last = redone(spec)) {
    if (auto clip = clip_after(graph, *last, before, node)) {
      spec.post_ops.push_back(std::move(*clip));
      return {};
    }
    return unsupported("nothing follows " + std::string(op(last->map).name) + " in a call of the library");
  }
  DType& dtype = spec.output.dtype;
  if (dtype == DType::i32) {  // the library computes the post-ops of a product of integers in f32
    if (node.op != ops::cast || node.type.dtype != DType::f32)
      return unsupported("only a cast to f32 follows a product of integers");
    dtype = DType::f32;
    return {};
  }
  if (node.op == ops::cast && stores_as(spec, node.type.dtype)) {
    dtype = node.type.dtype;
    return {};
  }
  if (node.type.dtype != dtype) return unsupported("it changes the dtype");
  if (auto a = activation(node)) {
    spec.post_ops.push_back(*a);
    return {};
  }
  TENON_ASSIGN(const library::OtherOperand other,
               library::other_operand(graph, before, node, " is not a post-op of the library"));
  const bool first = other.second;
  if (other.number) {
    const float c = static_cast<float>(*other.number);
    if (node.op == ops::add)
      spec.post_ops.push_back({algorithm::eltwise_linear, 1, c, -1, "add"});
    else if (node.op == ops::mul)
      spec.post_ops.push_back({algorithm::eltwise_linear, c, 0, -1, "mul"});
    else if (node.op == ops::sub)
      spec.post_ops.push_back({algorithm::eltwise_linear, first ? 1.f : -1.f, first ? -c : c, -1, "sub"});
    else if (node.op == ops::maximum && c == 0)
      spec.post_ops.push_back(relu());
    else
      return unsupported(std::string(row.name) +
                         " with a number is not a post-op that keeps NaN and rounding");
    return {};
  }
  algorithm alg;
  if (node.op == ops::add)
    alg = algorithm::binary_add;
  else if (node.op == ops::mul)
    alg = algorithm::binary_mul;
  else if (node.op == ops::sub && first)
    alg = algorithm::binary_sub;
  else if (node.op == ops::div && first)
    alg = algorithm::binary_div;
  else
    return unsupported(std::string(row.name) + " is not a post-op of the library");
  auto operand = library::spread(operand_of(graph, other.value, strides_of), node.type.shape);
  if (!operand) return unsupported("its other operand is larger than the result");
  spec.post_ops.push_back({alg, 0, 0, static_cast<int>(spec.operands.size()), std::string(row.name)});
  spec.operands.push_back(std::move(*operand));
  return {};
}

// Adds the bias as a post-op like any other addition; at_sizes() of problem.cc finds those that the library takes as its bias
// argument.
void add_bias(Spec& spec, Operand bias, size_t axis) {
  const Dims& shape = spec.output.shape;
  Operand o = bias;
  o.shape.assign(shape.size(), Dim(1));
  o.strides.assign(shape.size(), Dim(0));
  o.shape[axis] = bias.shape[0];
  o.strides[axis] = bias.strides[0];
  spec.post_ops.push_back({algorithm::binary_add, 0, 0, static_cast<int>(spec.operands.size()), "add"});
  spec.operands.push_back(std::move(o));
}

// Reads the attributes that a convolution and the gradient of its weight share.
void read_windows(const Node& node, Spec& spec) {
  spec.channels_last = attr_as<std::string>(node, "layout") == "channels_last";
  spec.strides = attr_as<Dims>(node, "strides");
  spec.low = attr_as<Dims>(node, "padding");
  spec.high = attr_as<Dims>(node, "padding_high");
  spec.dilations = attr_as<Dims>(node, "dilations");
  spec.groups = attr_as<Dim>(node, "groups");
}

Status read_convolution(const Graph& graph, const Node& node, const StridesOf& strides_of, Spec& spec) {
  const bool transposed = attr_as<bool>(node, "transposed");
  spec.form = transposed ? Form::deconvolution : Form::convolution;
  read_windows(node, spec);
  if (transposed) {
    const Dims& extra = attr_as<Dims>(node, "output_padding");
    for (size_t i = 0; i < extra.size(); ++i) spec.high[i] = graph.dims->sub(spec.high[i], extra[i]);
  }
  const Dims& weights = graph.type(node.inputs[1]).shape;
  spec.kernel.assign(weights.begin() + 2, weights.end());
  if (node.inputs.size() > 2)
    add_bias(spec, operand_of(graph, node.inputs[2], strides_of),
             spec.channels_last ? spec.output.shape.size() - 1 : 1);
  return {};
}

Status read_average(const Graph& graph, const Node& node, Spec& spec) {
  spec.form = Form::average;
  spec.channels_last = attr_as<std::string>(node, "layout") == "channels_last";
  if (node.op == ops::avg_pool) {
    spec.kernel = attr_as<Dims>(node, "kernel");
    spec.strides = attr_as<Dims>(node, "strides");
    spec.low = attr_as<Dims>(node, "padding");
    spec.high = attr_as<Dims>(node, "padding_high");
    spec.include_pad = attr_as<bool>(node, "count_include_pad");
    int64_t cells = 1;
    for (size_t i = 0; i < spec.kernel.size(); ++i) {
      if (!spec.kernel[i].is_const() || !spec.low[i].is_const() || !spec.high[i].is_const())
        return unsupported("its windows have no known size");
      cells *= spec.kernel[i].value();
      if (spec.include_pad && spec.high[i] > spec.low[i])
        return unsupported("windows reach past the padding that counts");
    }
    const int64_t divisor = attr_int(node, "divisor");
    if (divisor != 0 && divisor != cells) return unsupported("the library has no divisor of its own");
    if (divisor != 0) spec.include_pad = true;
    return {};
  }
  const Dims& shape = graph.type(node.inputs[0]).shape;
  const Dims& output = attr_as<Dims>(node, "output");
  for (size_t i = 0; i < output.size(); ++i) {
    auto each = graph.dims->divide(shape[i + (spec.channels_last ? 1 : 2)], output[i]);
    if (!each) return unsupported("its windows are not equal");
    spec.kernel.push_back(*each);
  }
  spec.strides = spec.kernel;
  spec.low.assign(output.size(), 0);
  spec.high = spec.low;
  return {};
}

}  // namespace

std::optional<Redone> redone(const Spec& spec) {
  return spec.post_ops.empty() ? std::nullopt : spec.post_ops.back().redone;
}

Spec without_redone(Spec spec) {
  if (redone(spec)->most) spec.post_ops.pop_back();
  if (spec.form == Form::pointwise)
    spec.post_ops.back() = {algorithm::eltwise_linear, 1, 0, -1, "copy"};
  else
    spec.post_ops.pop_back();
  return spec;
}

std::optional<PostOp> activation(const Node& node) {
  const std::string name(op(node.op).name);
  switch (node.op) {
    case ops::relu: return relu();
    case ops::gelu:
      if (attr_as<std::string>(node, "approximate") == "tanh")
        return PostOp{algorithm::eltwise_gelu_tanh, 0, 0, -1, name};
      return PostOp{algorithm::eltwise_gelu_erf, 0, 0, -1, name, Redone{ops::gelu}};
    case ops::silu: return PostOp{algorithm::eltwise_swish, 1, 0, -1, name};
    case ops::hardswish: return PostOp{algorithm::eltwise_hardswish, 1.f / 6, 0.5f, -1, name};
    case ops::mish: return PostOp{algorithm::eltwise_mish, 0, 0, -1, name};
    case ops::leaky_relu: {
      const float slope = static_cast<float>(attr_as<double>(node, "slope"));
      // With a slope of 0 the row itself turns minus infinity into NaN, as this post-op does; nothing has to be redone.
      if (slope == 0) return PostOp{algorithm::eltwise_hardswish, kSteepest, 0, -1, name};
      return PostOp{algorithm::eltwise_relu, slope, 0, -1, name};
    }
    case ops::tanh: return PostOp{algorithm::eltwise_tanh, 0, 0, -1, name};
    case ops::neg: return PostOp{algorithm::eltwise_linear, -1, 0, -1, name};
    case ops::abs: return PostOp{algorithm::eltwise_abs, 0, 0, -1, name};
    default: return std::nullopt;
  }
}

Result<Spec> make_spec(const Graph& graph, std::span<const ValueId> members, const StridesOf& strides_of) {
  const ValueId root = members.front(), last = members.back();
  const Node& node = graph.node(root);
  Spec spec;
  spec.name = std::string(op(node.op).name);
  const DType dtype = node.type.dtype;
  if (node.op != ops::int_matmul && dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
    return unsupported("the library is not used for " + std::string(name(dtype)));
  for (ValueId i : node.inputs)
    if (graph.type(i).rank() > kLibraryRank) return unsupported("it has more than 6 axes");
  if (graph.type(last).shape != node.type.shape) return unsupported("no post-op changes the shape");
  spec.output = library::written(graph, last, strides_of);
  spec.output.dtype = dtype;
  spec.operands.push_back(operand_of(graph, node.inputs[0], strides_of));

  switch (node.op) {
    case ops::matmul:
    case ops::int_matmul: spec.operands.push_back(operand_of(graph, node.inputs[1], strides_of)); break;
    case ops::linear: {
      Operand w = operand_of(graph, node.inputs[1], strides_of);
      library::swap_matrix(w);
      spec.operands.push_back(std::move(w));
      if (node.inputs.size() > 2)
        add_bias(spec, operand_of(graph, node.inputs[2], strides_of), spec.output.shape.size() - 1);
      break;
    }
    case ops::convolution:
      spec.operands.push_back(operand_of(graph, node.inputs[1], strides_of));
      TENON_TRY(read_convolution(graph, node, strides_of, spec));
      break;
    case ops::convolution_weight_gradient:
      spec.form = Form::weight_gradient;
      spec.operands.push_back(operand_of(graph, node.inputs[1], strides_of));
      read_windows(node, spec);
      spec.kernel = attr_as<Dims>(node, "kernel");
      break;
    case ops::avg_pool:
    case ops::adaptive_avg_pool: TENON_TRY(read_average(graph, node, spec)); break;
    case ops::max_pool: return unsupported("the library's max pooling loses NaN");
    default: {
      auto a = activation(node);
      if (!a) return unsupported(std::string(op(node.op).name) + " is no call of the library");
      spec.form = Form::pointwise;
      spec.post_ops.push_back(*a);
    }
  }
  for (size_t m = 1; m < members.size(); ++m)
    TENON_TRY(append(graph, members[m - 1], members[m], strides_of, spec));
  return spec;
}

}  // namespace tenon::onednn
