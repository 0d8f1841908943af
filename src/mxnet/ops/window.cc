// Rows that move windows over spatial axes: convolutions, pooling, resizing. Data is NCW, NCHW or NCDHW, or with the channels
// last NWC, NHWC or NDHWC.
#include <algorithm>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace window_ops {
namespace {

Dims to_dims(const std::vector<int64_t>& list) { return {list.begin(), list.end()}; }

// The attribute with one value of at least `otherwise` per spatial axis; () stands for `otherwise` on each.
std::vector<int64_t> per_axis(const Attrs& a, const char* name, size_t axes, int64_t otherwise) {
  std::vector<int64_t> list = a.ints(name);
  if (list.empty()) list.assign(axes, otherwise);
  if (list.size() != axes)
    throw StatusError(invalid(std::string(name) + " has " + std::to_string(list.size()) + " values for " +
                              std::to_string(axes) + " spatial axes"));
  for (const int64_t n : list)
    if (n < otherwise || n > 1 << 30)
      throw StatusError(invalid(std::string(name) + " has the value " + std::to_string(n)));
  return list;
}

size_t spatial_axes(Call& c) {
  if (c.rank(c.in[0]) < 3) throw StatusError(invalid("needs data of rank 3 to 5"));
  return static_cast<size_t>(c.rank(c.in[0]) - 2);
}

bool channels_last(const Attrs& a) { return a.text("layout").ends_with('C'); }
NamedAttr layout(const Attrs& a) {
  return {"layout", std::string(channels_last(a) ? "channels_last" : "channels_first")};
}
// The first spatial axis.
size_t first_spatial(const Attrs& a) { return channels_last(a) ? 1 : 2; }

// A weight with the channels last, as Tenon's convolution takes it: behind the first axis.
void move_channels(Call& c) {
  if (!channels_last(c.a)) return;
  Dims perm = {Dim(0), Dim(c.rank(c.in[1]) - 1)};
  for (int i = 1; i < c.rank(c.in[1]) - 1; ++i) perm.push_back(Dim(i));
  c.in[1] = c.transpose(c.in[1], perm);
}

Values convolution(Call& c) {
  const size_t axes = spatial_axes(c);
  move_channels(c);
  const Dims pad = to_dims(per_axis(c.a, "pad", axes, 0));
  return {c(ops::convolution, c.in,
            {{"strides", to_dims(per_axis(c.a, "stride", axes, 1))},
             {"padding", pad},
             {"padding_high", pad},
             {"dilations", to_dims(per_axis(c.a, "dilate", axes, 1))},
             {"groups", Dim(c.a.integer("num_group"))},
             layout(c.a)})};
}

Values deconvolution(Call& c) {
  const size_t axes = spatial_axes(c);
  move_channels(c);
  const auto kernel = per_axis(c.a, "kernel", axes, 1), stride = per_axis(c.a, "stride", axes, 1),
             dilate = per_axis(c.a, "dilate", axes, 1);
  auto pad = per_axis(c.a, "pad", axes, 0), adjust = per_axis(c.a, "adj", axes, 0);
  const auto target = per_axis(c.a, "target_shape", axes, 0);
  if (std::any_of(target.begin(), target.end(), [](int64_t n) { return n != 0; })) {
    for (size_t i = 0; i < axes; ++i) {
      const Dim size = c.shape(c.in[0])[first_spatial(c.a) + i];
      if (!size.is_const() || size.value() > 1 << 30)
        throw StatusError(unsupported("target_shape with a symbolic or huge size is not translated"));
      const int64_t whole = stride[i] * (size.value() - 1) + dilate[i] * (kernel[i] - 1) + 1;
      if (whole < target[i]) throw StatusError(invalid("target_shape is too large"));
      adjust[i] = (whole - target[i]) % 2;
      pad[i] = (whole - target[i] + 1) / 2;
    }
  }
  return {c(ops::convolution, c.in,
            {{"strides", to_dims(stride)},
             {"padding", to_dims(pad)},
             {"padding_high", to_dims(pad)},
             {"dilations", to_dims(dilate)},
             {"groups", Dim(c.a.integer("num_group"))},
             {"transposed", true},
             {"output_padding", to_dims(adjust)},
             layout(c.a)})};
}

// The weight is [filters, channels / groups, kernel...]; of a deconvolution [channels, filters / groups, kernel...]. With the
// channels last, the second of these is the last.
template <bool transposed>
void complete_convolution(Completion& c) {
  const int64_t filters = c.a.integer("num_filter"), groups = std::max<int64_t>(c.a.integer("num_group"), 1);
  if (c.has(2)) c.set(c.in[2], {Size(Dim(filters))});
  const auto* data = c.sizes(0);
  if (!data || data->size() < 3) return;
  const bool last = channels_last(c.a);
  const Size channels = last ? data->back() : (*data)[1];
  if (!channels) return;
  std::vector<Size> weight = {transposed ? *channels : Dim(filters)};
  const Dim second = transposed ? Dim(filters / groups) : c.dims.floor_div(*channels, Dim(groups));
  if (!last) weight.push_back(second);
  for (const int64_t k : c.a.ints("kernel")) weight.push_back(Size(Dim(k)));
  if (last) weight.push_back(second);
  c.set(c.in[1], weight);
}

Status check_layout(const Attrs& a) {
  const std::string_view layout = a.text("layout");
  for (const char* known : {"None", "NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC"})
    if (layout == known) return {};
  return unsupported("the layout " + std::string(layout.substr(0, 20)) + " is not translated");
}

Status check_convolution(const Ask& ask) {
  TENON_TRY(check_layout(ask.a));
  const size_t axes = ask.a.tuple("kernel").size();
  if (axes < 1 || axes > 3) return invalid("kernel has " + std::to_string(axes) + " values, not 1 to 3");
  const size_t n = ask.a.flag("no_bias") ? 2 : 3;
  if (ask.node.inputs.size() == n) return {};
  return invalid("no_bias=" + std::string(ask.a.text("no_bias")) + " asks for " + std::to_string(n) +
                 " operands, given " + std::to_string(ask.node.inputs.size()));
}

// Reduces all spatial axes, or sums windows.
ValueId sum_windows(Call& c, ValueId x, const NamedAttr& kernel, const NamedAttr& stride, const Dims& low,
                    const Dims& high) {
  return c(ops::avg_pool, {x},
           {kernel, stride, {"padding", low}, {"padding_high", high}, {"divisor", Dim(1)}, layout(c.a)});
}

Values global_pool(Call& c, std::string_view kind) {
  ValueId x = c.in[0];
  Dims axes;
  const int first = static_cast<int>(first_spatial(c.a));
  for (int i = 0; i < c.rank(x) - 2; ++i) axes.push_back(Dim(first + i));
  auto fold = [&](OpId op, ValueId v) { return c(op, {v}, {{"axes", axes}, {"keepdims", true}}); };
  if (kind == "max") return {fold(ops::max, x)};
  if (kind == "avg") return {fold(ops::mean, x)};
  return {fold(ops::sum, x)};
}

Values pooling(Call& c) {
  const std::string_view kind = c.a.text("pool_type");
  const size_t axes = spatial_axes(c);
  ValueId x = c.in[0];
  const double power = kind == "lp" && !c.a.is_none("p_value") ? c.a.number("p_value") : 2;
  if (kind == "lp") x = c(ops::pow, {c(ops::abs, {x}), c.like(x, power)});
  auto root = [&](ValueId v) { return Values{kind == "lp" ? c(ops::pow, {v, c.like(v, 1 / power)}) : v}; };
  c.in[0] = x;
  if (c.a.flag("global_pool")) return root(global_pool(c, kind)[0]);

  const auto kernel = per_axis(c.a, "kernel", axes, 1), stride = per_axis(c.a, "stride", axes, 1),
             pad = per_axis(c.a, "pad", axes, 0);
  // `full` rounds the number of windows up. The last window then reaches beyond the padding; what lies there does not
  // count in averages.
  Dims beyond(axes, Dim(0));
  bool reaches = false;
  if (c.a.text("pooling_convention") == "full") {
    DimTable& dims = c.b.dims();
    for (size_t i = 0; i < axes; ++i) {
      const Dim rest = dims.add(c.shape(x)[first_spatial(c.a) + i], Dim(2 * pad[i] - kernel[i]));
      const Dim last = dims.mul(dims.ceil_div(rest, Dim(stride[i])), Dim(stride[i]));
      beyond[i] = dims.sub(last, rest);
      reaches |= beyond[i] != Dim(0);
    }
  }
  const NamedAttr kernels{"kernel", to_dims(kernel)}, strides{"strides", to_dims(stride)};
  const Dims low = to_dims(pad);
  Dims high;
  for (size_t i = 0; i < axes; ++i) high.push_back(c.b.dims().add(Dim(pad[i]), beyond[i]));
  if (kind == "max")
    return {c(ops::max_pool, {x}, {kernels, strides, {"padding", low}, {"padding_high", high}, layout(c.a)})};
  if (kind != "avg") return root(sum_windows(c, x, kernels, strides, low, high));
  const bool count = c.a.is_none("count_include_pad") || c.a.flag("count_include_pad");
  if (count && reaches) {
    Dims around(2 + axes, Dim(0));
    std::copy(low.begin(), low.end(), around.begin() + static_cast<ptrdiff_t>(first_spatial(c.a)));
    x = c(ops::pad, {x}, {{"low", around}, {"high", around}});
    return {c(ops::avg_pool, {x},
              {kernels,
               strides,
               {"padding", Dims(axes, Dim(0))},
               {"padding_high", beyond},
               {"count_include_pad", false},
               layout(c.a)})};
  }
  return {c(ops::avg_pool, {x},
            {kernels,
             strides,
             {"padding", low},
             {"padding_high", high},
             {"count_include_pad", count},
             layout(c.a)})};
}

Status check_pooling(const Ask& ask) {
  if (ask.a.text("pooling_convention") == "same")
    return unsupported("MXNet 1.9.1 fails for pooling_convention=same with any kernel");
  return check_layout(ask.a);
}

// The windows of a convolution as columns: [N, C * kernel, positions].
Values windows_as_columns(Call& c) {
  const size_t axes = spatial_axes(c);
  const auto kernel = per_axis(c.a, "kernel", axes, 1), pad = per_axis(c.a, "pad", axes, 0);
  Dims around(2 + axes, Dim(0)), spatial, perm = {Dim(0), Dim(1)};
  for (size_t i = 0; i < axes; ++i) {
    around[2 + i] = Dim(pad[i]);
    spatial.push_back(Dim(static_cast<int64_t>(2 + i)));
    perm.push_back(Dim(static_cast<int64_t>(2 + axes + i)));
  }
  perm.insert(perm.end(), spatial.begin(), spatial.end());
  const ValueId padded = c(ops::pad, {c.in[0]}, {{"low", around}, {"high", around}});
  const ValueId windows = c(ops::windows, {padded},
                            {{"axes", spatial},
                             {"sizes", to_dims(kernel)},
                             {"strides", to_dims(per_axis(c.a, "stride", axes, 1))},
                             {"dilations", to_dims(per_axis(c.a, "dilate", axes, 1))}});
  const ValueId columns = c.transpose(windows, perm);
  const Sizes shape = c.shape(columns);
  return {c.reshape(columns,
                    {shape[0], c.product(shape, 1, 2 + axes), c.product(shape, 2 + axes, shape.size())})};
}

Values adaptive_pool(Call& c) {
  std::vector<int64_t> size = c.a.ints("output_size");
  if (size.empty()) size = {1};
  if (size.size() == 1) size.push_back(size[0]);
  return {c(ops::adaptive_avg_pool, c.in, {{"output", to_dims(size)}})};
}

// Repeats every element of the two spatial axes `scale` times.
Values up_sampling(Call& c) {
  const ValueId x = c.in[0];
  const Sizes shape = shape_of_rank(c, x, 4);
  const Dim scale(c.a.integer("scale")), one(1);
  DimTable& dims = c.b.dims();
  const ValueId split = c.reshape(x, {shape[0], shape[1], shape[2], one, shape[3], one});
  const ValueId repeated =
      c(ops::expand, {split}, {{"shape", Dims{shape[0], shape[1], shape[2], scale, shape[3], scale}}});
  return {c.reshape(repeated, {shape[0], shape[1], dims.mul(shape[2], scale), dims.mul(shape[3], scale)})};
}

constexpr std::string_view kConvolution =
    "kernel:shape stride:shape=() dilate:shape=() pad:shape=() num_filter:int num_group:int=1 "
    "workspace:any=1024 "
    "no_bias:bool=False cudnn_tune:any=None cudnn_off:any=False layout:text=None";

const Row kRows[] = {
    {.names = "Convolution Convolution_v1 _npx_convolution",
     .operands = "data weight bias?",
     .attrs = kConvolution,
     .body = convolution,
     .complete = complete_convolution<false>,
     .check = check_convolution},
    {.names = "Deconvolution _npx_deconvolution",
     .operands = "data weight bias?",
     .attrs = "kernel:shape stride:shape=() dilate:shape=() pad:shape=() adj:shape=() target_shape:shape=() "
              "num_filter:int num_group:int=1 workspace:any=512 no_bias:bool=True cudnn_tune:any=None "
              "cudnn_off:any=False layout:text=None",
     .body = deconvolution,
     .complete = complete_convolution<true>,
     .check = check_convolution},
    {.names = "Pooling _npx_pooling Pooling_v1",
     .attrs = "kernel:shape=() pool_type:text{avg,lp,max,sum}=max global_pool:bool=False cudnn_off:any=False "
              "pooling_convention:text{full,same,valid}=valid stride:shape=() pad:shape=() p_value:int?=None "
              "count_include_pad:bool?=None layout:text=None",
     .body = pooling,
     .check = check_pooling},
    {.names = "im2col",
     .attrs = "kernel:shape stride:shape=() dilate:shape=() pad:shape=()",
     .body = windows_as_columns},
    {.names = "_contrib_AdaptiveAvgPooling2D", .attrs = "output_size:shape=()", .body = adaptive_pool},
    {.names = "UpSampling",
     .attrs = "scale:int num_filter:any=0 sample_type:text{nearest} multi_input_mode:any=concat num_args:int "
              "workspace:any=512",
     .body = up_sampling},
};

}  // namespace
}  // namespace window_ops

std::span<const Row> window_rows() { return window_ops::kRows; }

}  // namespace tenon::mxnet
