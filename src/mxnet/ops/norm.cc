// Rows of normalizations.
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace norm_ops {
namespace {

Values batch_norm(Call& c) {
  const ValueId x = c.in[0], beta = c.in[2], mean = c.in[3], var = c.in[4];
  const int axis = c.axis(c.a.integer("axis"), c.rank(x));
  // fix_gamma: the scale is 1, whatever the parameter holds.
  const ValueId gamma = c.a.flag("fix_gamma") ? c.full(c.shape(c.in[1]), c.dtype(c.in[1]), 1) : c.in[1];
  return {c(ops::batch_norm, {x, mean, var, gamma, beta}, {{"eps", c.a.number("eps")}, {"axis", Dim(axis)}})};
}
Values batch_norm_v1(Call& c) {
  const ValueId gamma = c.a.flag("fix_gamma") ? c.full(c.shape(c.in[1]), c.dtype(c.in[1]), 1) : c.in[1];
  return {c(ops::batch_norm, {c.in[0], c.in[3], c.in[4], gamma, c.in[2]},
            {{"eps", c.a.number("eps")}, {"axis", Dim(1)}})};
}
Values batch_norm_relu(Call& c) { return {c(ops::relu, batch_norm(c))}; }

// Operands from 1 on have the size of the data's axis, and f32 beside 16-bit floats.
void complete_channels(Completion& c, int64_t axis, bool wide) {
  c.same(c.in[0], c.out[0]);
  const auto* data = c.sizes(0);
  const std::optional<DType> dtype = c.in[0].dtype;
  for (size_t i = 1; i < c.in.size(); ++i) {
    if (dtype) c.set(c.in[i], wide && is_narrow(*dtype) ? DType::f32 : *dtype);
    if (!data) continue;
    const auto rank = static_cast<int64_t>(data->size());
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) c.set(c.in[i], {(*data)[at]});
  }
}
void complete_batch_norm(Completion& c) { complete_channels(c, c.a.integer("axis"), true); }
void complete_batch_norm_v1(Completion& c) { complete_channels(c, 1, true); }
void complete_layer_norm(Completion& c) { complete_channels(c, c.a.integer("axis"), false); }
void complete_instance_norm(Completion& c) { complete_channels(c, 1, false); }

Status check_batch_norm(const Ask& ask) {
  if (ask.a.flag("output_mean_var")) return unsupported("output_mean_var is not translated");
  if (ask.training && !ask.a.flag("use_global_stats"))
    return unsupported("batch normalization updates its statistics in training");
  return {};
}
Status check_mean_var(const Ask& ask) {
  return ask.a.flag("output_mean_var") ? unsupported("output_mean_var is not translated") : Status();
}

// A permutation that moves the axis to the end, or with `back` from the end to its place.
Dims axis_to_end(int rank, int axis, bool back) {
  Dims perm;
  for (int i = 0; i < rank; ++i)
    if (i != axis) perm.push_back(Dim(i));
  perm.push_back(Dim(axis));
  if (!back) return perm;
  Dims inverse(rank);
  for (int i = 0; i < rank; ++i) inverse[perm[i].value()] = Dim(i);
  return inverse;
}

Values layer_norm(Call& c) {
  ValueId x = c.in[0];
  const int rank = c.rank(x), axis = c.axis(c.a.integer("axis"), rank);
  const bool moved = axis != rank - 1;
  if (moved) x = c.transpose(x, axis_to_end(rank, axis, false));
  x = c(ops::layer_norm, {x, c.in[1], c.in[2]}, {{"axes_count", Dim(1)}, {"eps", c.a.number("eps")}});
  return {moved ? c.transpose(x, axis_to_end(rank, axis, true)) : x};
}

// Scale and shift are per group, not per channel.
Values group_norm(Call& c) {
  const Dim groups(c.a.integer("num_groups")), channels = c.shape(c.in[0]).at(1);
  const auto each = groups.value() > 0 ? c.b.dims().divide(channels, groups) : std::nullopt;
  if (!each) throw StatusError(invalid("num_groups does not divide the number of channels"));
  auto per_channel = [&](ValueId v) {
    const ValueId wide = c(ops::expand, {c.reshape(v, {groups, Dim(1)})}, {{"shape", Dims{groups, *each}}});
    return c.reshape(wide, {channels});
  };
  return {c(ops::group_norm, {c.in[0], per_channel(c.in[1]), per_channel(c.in[2])},
            {{"groups", groups}, {"eps", c.a.number("eps")}})};
}
void complete_group_norm(Completion& c) {
  c.same(c.in[0], c.out[0]);
  for (size_t i = 1; i < c.in.size(); ++i) c.set(c.in[i], {Size(Dim(c.a.integer("num_groups")))});
}

Values instance_norm(Call& c) { return {c(ops::instance_norm, c.in, {{"eps", c.a.number("eps")}})}; }

Values l2_normalization(Call& c) {
  const ValueId x = c.in[0];
  const std::string_view mode = c.a.text("mode");
  Dims axes;
  const int begin = mode == "spatial" ? 2 : 1, end = mode == "channel" ? 2 : c.rank(x);
  for (int i = begin; i < end; ++i) axes.push_back(Dim(i));
  if (axes.empty()) throw StatusError(invalid("needs more axes"));
  const ValueId squares = c(ops::sum, {c(ops::square, {x})}, {{"axes", axes}, {"keepdims", true}});
  return {c(ops::div, {x, c(ops::sqrt, {c(ops::add, {squares, c.like(x, c.a.number("eps"))})})})};
}

// Local response normalization: x / (knorm + alpha / nsize * the sum of squares of nsize neighbouring channels)^beta.
Values lrn(Call& c) {
  const ValueId x = c.in[0];
  const int64_t size = c.a.integer("nsize");
  if (size < 1 || size % 2 == 0) throw StatusError(invalid("nsize must be odd"));
  Dims around(c.rank(x), Dim(0));
  if (around.size() < 2) throw StatusError(invalid("needs a channel axis"));
  around[1] = Dim(size / 2);
  const ValueId padded = c(ops::pad, {c(ops::square, {x})}, {{"low", around}, {"high", around}});
  const ValueId windows = c(ops::windows, {padded},
                            {{"axes", Dims{Dim(1)}},
                             {"sizes", Dims{Dim(size)}},
                             {"strides", Dims{Dim(1)}},
                             {"dilations", Dims{Dim(1)}}});
  const ValueId squares = c(ops::sum, {windows}, {{"axes", Dims{Dim(-1)}}});
  const double scale = c.a.number("alpha") / static_cast<double>(size);
  const ValueId base =
      c(ops::add, {c(ops::mul, {squares, c.like(x, scale)}), c.like(x, c.a.number("knorm"))});
  return {c(ops::mul, {x, c(ops::pow, {base, c.like(x, -c.a.number("beta"))})})};
}

constexpr std::string_view kBatchOperands = "data gamma beta moving_mean moving_var";
constexpr std::string_view kBatchNorm =
    "eps:double=0.0010000000474974513 momentum:any=0.9 fix_gamma:bool=True use_global_stats:bool=False "
    "output_mean_var:bool=False "
    "axis:int=1 cudnn_off:any=False min_calib_range:any?=None max_calib_range:any?=None";

const Row kRows[] = {
    {.names = "BatchNorm _npx_batch_norm CuDNNBatchNorm",
     .operands = kBatchOperands,
     .attrs = kBatchNorm,
     .body = batch_norm,
     .complete = complete_batch_norm,
     .check = check_batch_norm,
     .hidden = 2,
     .auxiliary = 2,
     .mixed = true},
    {.names = "_contrib_BatchNormWithReLU",
     .operands = kBatchOperands,
     .attrs = kBatchNorm,
     .body = batch_norm_relu,
     .complete = complete_batch_norm,
     .check = check_batch_norm,
     .hidden = 2,
     .auxiliary = 2,
     .mixed = true},
    {.names = "BatchNorm_v1 _contrib_SyncBatchNorm",
     .operands = kBatchOperands,
     .attrs = "eps:float=0.001 momentum:any=0.9 fix_gamma:bool=True use_global_stats:bool=False "
              "output_mean_var:bool=False ndev:any=1 key:any=None",
     .body = batch_norm_v1,
     .complete = complete_batch_norm_v1,
     .check = check_batch_norm,
     .hidden = 2,
     .auxiliary = 2,
     .mixed = true},
    {.names = "LayerNorm _npx_layer_norm",
     .operands = "data gamma beta",
     .attrs = "axis:int=-1 eps:float=1e-05 output_mean_var:bool=False",
     .body = layer_norm,
     .complete = complete_layer_norm,
     .check = check_mean_var,
     .hidden = 2},
    {.names = "GroupNorm",
     .operands = "data gamma beta",
     .attrs = "num_groups:int=1 eps:float=1e-05 output_mean_var:bool=False",
     .body = group_norm,
     .complete = complete_group_norm,
     .check = check_mean_var,
     .hidden = 2},
    {.names = "InstanceNorm",
     .operands = "data gamma beta",
     .attrs = "eps:float=0.001",
     .body = instance_norm,
     .complete = complete_instance_norm},
    {.names = "L2Normalization",
     .attrs = "eps:float=1e-10 mode:text{channel,instance,spatial}=instance",
     .body = l2_normalization,
     .complete = same_shapes,
     .hidden = 1},
    {.names = "LRN",
     .attrs = "alpha:float=0.0001 beta:float=0.75 knorm:float=2 nsize:int",
     .body = lrn,
     .complete = same_shapes,
     .hidden = 1},
};

}  // namespace
}  // namespace norm_ops

std::span<const Row> norm_rows() { return norm_ops::kRows; }

}  // namespace tenon::mxnet
