// Rows of layers: products with weights, activations, softmax, dropout, and the outputs of MXNet's older models, which
// compute a loss's gradient in training and are plain functions otherwise. Normalizations are in norm.cc, windows in
// window.cc.
#include <limits>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace neural_ops {
namespace {

// The sizes behind the batch as one.
ValueId flatten(Call& c, ValueId v) {
  const Sizes shape = c.shape(v);
  if (shape.empty()) throw StatusError(invalid("needs a batch axis"));
  return c.reshape(v, {shape[0], c.product(shape, 1, shape.size())});
}

Values fully_connected(Call& c) {
  const bool flat = c.a.flag("flatten");
  std::vector<ValueId> operands = {flat && c.rank(c.in[0]) != 2 ? flatten(c, c.in[0]) : c.in[0], c.in[1]};
  if (!c.a.flag("no_bias")) operands.push_back(c.in[2]);
  return {c(ops::linear, operands)};
}

void complete_fully_connected(Completion& c) {
  const Dim hidden(c.a.integer("num_hidden"));
  if (c.has(2)) c.set(c.in[2], {Size(hidden)});
  const bool flat = c.a.flag("flatten");
  if (const auto* data = c.sizes(0); data && !data->empty()) {
    Size features = Dim(1);
    if (flat)
      for (size_t i = 1; i < data->size(); ++i) features = c.mul(features, (*data)[i]);
    else
      features = data->back();
    c.set(c.in[1], {Size(hidden), features});
    std::vector<Size> out = *data;
    if (flat) out.resize(1);
    if (flat) out.push_back(hidden);
    out.back() = hidden;
    c.set(c.out[0], out);
    // The batch, if only the output knows it.
    if (c.out[0].shape) {
      std::vector<Size> known(data->size());
      if (flat || known.size() == c.out[0].shape->size()) {
        for (size_t i = 0; i + 1 < (flat ? 2 : known.size()) && i < known.size(); ++i)
          known[i] = (*c.out[0].shape)[i];
        c.set(c.in[0], known);
      }
    }
  }
}

Status check_bias(const Ask& ask) {
  const size_t n = ask.a.flag("no_bias") ? 2 : 3;
  if (ask.node.inputs.size() == n) return {};
  return invalid("no_bias=" + std::string(ask.a.text("no_bias")) + " asks for " + std::to_string(n) +
                 " operands, given " + std::to_string(ask.node.inputs.size()));
}

Values activation(Call& c) {
  const std::string_view kind = c.a.text("act_type");
  const ValueId x = c.in[0];
  if (kind == "relu") return {c(ops::relu, {x})};
  if (kind == "sigmoid") return {c(ops::sigmoid, {x})};
  if (kind == "tanh") return {c(ops::tanh, {x})};
  if (kind == "softrelu") return {c(ops::softplus, {x})};
  return {c(ops::div, {x, c(ops::add, {c.like(x, 1), c(ops::abs, {x})})})};
}

Values leaky_relu(Call& c) {
  const std::string_view kind = c.a.text("act_type");
  const ValueId x = c.in[0];
  const double slope = c.a.number("slope");
  if (kind == "leaky") return {c(ops::leaky_relu, {x}, {{"slope", slope}})};
  if (kind == "elu") return {c(ops::elu, {x}, {{"alpha", slope}})};
  if (kind == "gelu") return {c(ops::gelu, {x})};
  if (kind == "rrelu") {
    const double mean = (c.a.number("lower_bound") + c.a.number("upper_bound")) / 2;
    return {c(ops::leaky_relu, {x}, {{"slope", mean}})};
  }
  if (kind == "selu") {
    constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
    return {c(ops::mul, {c.like(x, kScale), c(ops::elu, {x}, {{"alpha", kAlpha}})})};
  }
  // prelu: one slope per channel, or one for all.
  ValueId slopes = c.in[1];
  if (c.rank(slopes) == 1 && c.rank(x) > 1) {
    Dims along(c.rank(x), Dim(1));
    along[1] = c.shape(slopes)[0];
    slopes = c.reshape(slopes, along);
  }
  return {c(ops::where, {c(ops::gt, {x, c.like(x, 0)}), x, c(ops::mul, {x, slopes})})};
}

void complete_leaky_relu(Completion& c) {
  c.same(c.in[0], c.out[0]);
  const auto* data = c.sizes(0);
  if (c.has(1) && data && !c.in[1].shape) c.set(c.in[1], {data->size() > 1 ? (*data)[1] : Size(Dim(1))});
}

Status check_leaky_relu(const Ask& ask) {
  if (ask.training && ask.a.text("act_type") == "rrelu")
    return unsupported("rrelu draws random slopes in training");
  const size_t n = ask.a.text("act_type") == "prelu" ? 2 : 1;
  if (ask.node.inputs.size() == n) return {};
  return invalid("takes " + std::to_string(n) + " operands, given " + std::to_string(ask.node.inputs.size()));
}

// Whether the position along the axis is below the length of its row. `lengths` has the shape without the axis.
ValueId within(Call& c, ValueId lengths, const Dims& shape, int axis) {
  Sizes with = c.shape(lengths);
  if (with.size() + 1 != shape.size())
    throw StatusError(invalid("the lengths do not have the shape of the rows"));
  with.insert(with.begin() + axis, Dim(1));
  const ValueId end = c.reshape(c.cast(lengths, DType::i64), with);
  Dims along(shape.size(), Dim(1));
  along[axis] = shape[axis];
  const ValueId position = c(ops::iota, {}, {{"shape", along}, {"dtype", DType::i64}, {"axis", Dim(axis)}});
  return c(ops::lt, {position, end});
}

template <OpId op, bool negated = false>
Values softmax(Call& c) {
  ValueId x = c.in[0];
  const int axis = c.axis(c.a.integer("axis"), c.rank(x));
  std::optional<DType> result;
  if (!c.a.is_none("dtype")) result = c.a.dtype("dtype");
  if (result && (!is_float(c.dtype(x)) || size_of(*result) > size_of(c.dtype(x)))) x = c.cast(x, *result);
  if (negated) x = c(ops::neg, {x});
  if (!c.a.is_none("temperature") && c.a.number("temperature") != 1)
    x = c(ops::div, {x, c.like(x, c.a.number("temperature"))});
  ValueId y;
  if (c.a.flag("use_length")) {
    const ValueId inside = within(c, c.in[1], c.shape(x), axis);
    const ValueId masked = c(ops::where, {inside, x, c.like(x, -std::numeric_limits<double>::infinity())});
    y = c(ops::where, {inside, c(op, {masked}, {{"axis", Dim(axis)}}), c.like(x, 0)});
  } else {
    y = c(op, {x}, {{"axis", Dim(axis)}});
  }
  return {result ? c.cast(y, *result) : y};
}

Status check_length(const Ask& ask) {
  const size_t n = ask.a.flag("use_length") ? 2 : 1;
  if (ask.node.inputs.size() == n) return {};
  return invalid("use_length=" + std::string(ask.a.text("use_length")) + " asks for " + std::to_string(n) +
                 " operands, given " + std::to_string(ask.node.inputs.size()));
}

// Softmax of everything behind the batch, as one row.
ValueId softmax_of_rows(Call& c, ValueId x) {
  const Sizes shape = c.shape(x);
  return c.reshape(c(ops::softmax, {flatten(c, x)}, {{"axis", Dim(1)}}), shape);
}

Values softmax_activation(Call& c) {
  const ValueId x = c.in[0];
  if (c.a.text("mode") == "channel") return {c(ops::softmax, {x}, {{"axis", Dim(1)}})};
  // MXNet's own loops take all elements of an instance as one row, its oneDNN path takes the last axis.
  if (c.rank(x) != 2) throw StatusError(unsupported("mode=instance is translated for rank 2 only"));
  return {softmax_of_rows(c, x)};
}

Values softmax_output(Call& c) {
  const ValueId x = c.in[0];
  if (c.a.flag("multi_output")) return {c(ops::softmax, {x}, {{"axis", Dim(1)}})};
  if (c.a.flag("preserve_shape")) return {c(ops::softmax, {x}, {{"axis", Dim(-1)}})};
  return {softmax_of_rows(c, x)};
}

void complete_softmax_output(Completion& c) {
  const auto* data = c.sizes(0);
  if (!data || data->empty()) return;
  c.set(c.out[0], *data);
  if (c.in[1].shape) return;
  std::vector<Size> label = *data;
  if (c.a.flag("multi_output"))
    label.erase(label.begin() + (data->size() > 1 ? 1 : 0));
  else if (c.a.flag("preserve_shape"))
    label.pop_back();
  else
    label.resize(1);
  c.set(c.in[1], label);
}

Status inference_only(const Ask& ask) {
  return ask.training ? unsupported("its gradient is a loss's and not that of its output") : Status();
}

Values first(Call& c) { return {c.in[0]}; }
Values logistic(Call& c) { return {c(ops::sigmoid, {c.in[0]})}; }
void complete_label(Completion& c) { c.same(c.in[0], c.out[0]), c.same(c.in[0], c.in[1]); }

Status check_dropout(const Ask& ask) {
  if (ask.a.number("p") == 0) return {};
  if (ask.a.text("mode") == "always") return unsupported("mode=always draws random numbers in inference too");
  return ask.training ? unsupported("dropout draws random numbers in training") : Status();
}

constexpr std::string_view kSoftmax =
    "axis:int=-1 temperature:double?=None dtype:dtype?=None use_length:bool=False";

const Row kRows[] = {
    {.names = "FullyConnected _npx_fully_connected",
     .operands = "data weight bias?",
     .attrs = "num_hidden:int no_bias:bool=False flatten:bool=True",
     .body = fully_connected,
     .complete = complete_fully_connected,
     .check = check_bias},
    {.names = "Activation _npx_activation",
     .attrs = "act_type:text{relu,sigmoid,softrelu,softsign,tanh}",
     .body = activation,
     .complete = same_shapes},
    {.names = "LeakyReLU _npx_leaky_relu",
     .operands = "data gamma?",
     .attrs = "act_type:text{elu,gelu,leaky,prelu,rrelu,selu}=leaky slope:float=0.25 lower_bound:float=0.125 "
              "upper_bound:float=0.334",
     .body = leaky_relu,
     .complete = complete_leaky_relu,
     .check = check_leaky_relu,
     .hidden = 1},
    {.names = "softmax _npx_softmax",
     .operands = "data length?",
     .attrs = kSoftmax,
     .body = softmax<ops::softmax>,
     .check = check_length,
     .mixed = true},
    {.names = "softmin",
     .operands = "data length?",
     .attrs = kSoftmax,
     .body = softmax<ops::softmax, true>,
     .check = check_length,
     .mixed = true},
    {.names = "log_softmax _npx_log_softmax",
     .operands = "data length?",
     .attrs = kSoftmax,
     .body = softmax<ops::log_softmax>,
     .check = check_length,
     .mixed = true},
    {.names = "SoftmaxActivation",
     .attrs = "mode:text{channel,instance}=instance",
     .body = softmax_activation,
     .complete = same_shapes},
    {.names = "SoftmaxOutput Softmax",
     .operands = "data label",
     .attrs = "grad_scale:any=1.0 ignore_label:any=-1.0 multi_output:bool=False use_ignore:any=False "
              "preserve_shape:bool=False normalization:any=null out_grad:any=False smooth_alpha:any=0.0",
     .body = softmax_output,
     .complete = complete_softmax_output,
     .check = inference_only},
    {.names = "LinearRegressionOutput MAERegressionOutput",
     .operands = "data label",
     .attrs = "grad_scale:any=1.0",
     .body = first,
     .complete = complete_label,
     .check = inference_only},
    {.names = "LogisticRegressionOutput",
     .operands = "data label",
     .attrs = "grad_scale:any=1.0",
     .body = logistic,
     .complete = complete_label,
     .check = inference_only},
    {.names = "SVMOutput",
     .operands = "data label",
     .attrs = "margin:any=1.0 regularization_coefficient:any=1.0 use_linear:any=False",
     .body = first,
     .check = inference_only},
    {.names = "Dropout _npx_dropout",
     .attrs = "p:float=0.5 mode:text{always,training}=training axes:shape=() cudnn_off:any=False",
     .body = first,
     .complete = same_shapes,
     .check = check_dropout,
     .hidden = 1},
};

}  // namespace
}  // namespace neural_ops

std::span<const Row> neural_rows() { return neural_ops::kRows; }

}  // namespace tenon::mxnet
