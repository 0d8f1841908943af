// Rows that read images at computed positions: grids, bilinear samplers, spatial transformers.
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace sampler_ops {
namespace {

ValueId size_of_axis(Call& c, Dim size, DType dtype) {
  if (size.is_const()) return c.full({}, dtype, static_cast<double>(size.value()));
  return c.b.size(size, dtype);
}
ValueId less_one(Call& c, ValueId v) { return c(ops::sub, {v, c.like(v, 1)}); }

// 0, 1, 2 ... along the last axis (the last but one) of [1, height, width].
ValueId count(Call& c, Dim height, Dim width, bool rows, DType dtype) {
  return c(ops::iota, {},
           {{"shape", Dims{Dim(1), height, width}}, {"dtype", dtype}, {"axis", Dim(rows ? 1 : 2)}});
}

// Positions in [-1, 1] of a grid that an affine map moves: [N, 2, height, width] of [N, 6].
ValueId affine_grid(Call& c, ValueId map, Dim height, Dim width) {
  const DType dtype = c.dtype(map);
  auto along = [&](bool rows) {
    const ValueId last = less_one(c, size_of_axis(c, rows ? height : width, dtype));
    const ValueId step = c(ops::div, {c.like(last, 2), last});
    return less_one(c, c(ops::mul, {count(c, height, width, rows, dtype), step}));
  };
  const ValueId x = along(false), y = along(true);
  auto factor = [&](int64_t which) {
    return c.reshape(c.slice(map, 1, Dim(which), Dim(which + 1)), {c.shape(map)[0], Dim(1), Dim(1)});
  };
  std::vector<ValueId> parts;
  for (const int64_t row : {0, 3}) {
    const ValueId sum = c(ops::add, {c(ops::mul, {factor(row), x}), c(ops::mul, {factor(row + 1), y})});
    parts.push_back(c.reshape(c(ops::add, {sum, factor(row + 2)}), {c.shape(map)[0], Dim(1), height, width}));
  }
  return c(ops::concat, parts, {{"axis", Dim(1)}});
}

// A plain grid moved by a flow [N, 2, height, width] in pixels.
ValueId flow_grid(Call& c, ValueId flow) {
  const Sizes shape = shape_of_rank(c, flow, 4);
  std::vector<ValueId> parts;
  for (int i = 0; i < 2; ++i) {
    const ValueId plain =
        c.reshape(count(c, shape[2], shape[3], i == 1, c.dtype(flow)), {Dim(1), Dim(1), shape[2], shape[3]});
    const ValueId half =
        c(ops::div, {less_one(c, size_of_axis(c, shape[3 - i], c.dtype(flow))), c.like(flow, 2)});
    const ValueId moved = c(ops::add, {c.slice(flow, 1, Dim(i), Dim(i + 1)), plain});
    parts.push_back(less_one(c, c(ops::div, {moved, half})));
  }
  return c(ops::concat, parts, {{"axis", Dim(1)}});
}

std::pair<Dim, Dim> target(Call& c) {
  const auto size = c.a.ints("target_shape");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1)
    throw StatusError(invalid("target_shape needs two sizes"));
  return {Dim(size[0]), Dim(size[1])};
}
Values grid(Call& c) {
  if (c.a.text("transform_type") == "warp") return {flow_grid(c, c.in[0])};
  const auto [height, width] = target(c);
  return {affine_grid(c, c.in[0], height, width)};
}

// Interpolates images at the positions; beyond an image there are zeros.
ValueId sample(Call& c, ValueId image, ValueId at) {
  const Sizes shape = c.shape(image), out = c.shape(at);
  if (shape.size() != 4 || out.size() != 4) throw StatusError(invalid("needs operands of rank 4"));
  DimTable& dims = c.b.dims();
  const Dim places = dims.mul(out[2], out[3]);
  const ValueId flat = c.reshape(image, {shape[0], shape[1], dims.mul(shape[2], shape[3])});
  ValueId low[2], share[2], size[2];  // x, y
  for (int i = 0; i < 2; ++i) {
    const ValueId one = c.reshape(c.slice(at, 1, Dim(i), Dim(i + 1)), {out[0], Dim(1), places});
    const ValueId half =
        c(ops::div, {less_one(c, size_of_axis(c, shape[3 - i], c.dtype(at))), c.like(at, 2)});
    const ValueId position = c(ops::mul, {c(ops::add, {one, c.like(one, 1)}), half});
    const ValueId whole = c(ops::floor, {position});
    share[i] = c(ops::sub, {position, whole});
    low[i] = c.cast(whole, DType::i64);
    size[i] = size_of_axis(c, shape[3 - i], DType::i64);
  }
  ValueId sum = kNoValue;
  for (int corner = 0; corner < 4; ++corner) {
    ValueId index[2], weight = kNoValue, inside = kNoValue;
    for (int i = 0; i < 2; ++i) {
      const bool high = (corner >> i & 1) != 0;
      const ValueId place = high ? c(ops::add, {low[i], c.like(low[i], 1)}) : low[i];
      const ValueId zero = c.like(place, 0), last = less_one(c, size[i]);
      const ValueId fits = c(ops::logical_and, {c(ops::ge, {place, zero}), c(ops::le, {place, last})});
      const ValueId part = high ? share[i] : c(ops::sub, {c.like(share[i], 1), share[i]});
      index[i] = c(ops::clamp, {place, zero, last});
      weight = i == 0 ? part : c(ops::mul, {weight, part});
      inside = i == 0 ? fits : c(ops::logical_and, {inside, fits});
    }
    const ValueId pixel = c(ops::add, {c(ops::mul, {index[1], size[0]}), index[0]});
    const ValueId spread = c(ops::expand, {pixel}, {{"shape", Dims{shape[0], shape[1], places}}});
    const ValueId value = c(ops::take_along, {flat, spread}, {{"axis", Dim(2)}, {"wrap", false}});
    const ValueId term = c(ops::mul, {c(ops::where, {inside, value, c.like(value, 0)}), weight});
    sum = corner == 0 ? term : c(ops::add, {sum, term});
  }
  return c.reshape(sum, {shape[0], shape[1], out[2], out[3]});
}
Values bilinear(Call& c) { return {sample(c, c.in[0], c.in[1])}; }
Values transformer(Call& c) {
  const auto [height, width] = target(c);
  return {sample(c, c.in[0], affine_grid(c, c.in[1], height, width))};
}

const Row kRows[] = {
    {.names = "GridGenerator",
     .attrs = "transform_type:text{affine,warp} target_shape:shape=(0,0)",
     .body = grid,
     .hidden = 1},
    {.names = "BilinearSampler",
     .operands = "data grid",
     .attrs = "cudnn_off:any?=None",
     .body = bilinear,
     .hidden = 1},
    {.names = "SpatialTransformer",
     .operands = "data loc",
     .attrs = "target_shape:shape=(0,0) transform_type:text{affine} sampler_type:text{bilinear} "
              "cudnn_off:any?=None",
     .body = transformer,
     .hidden = 2},
};

}  // namespace
}  // namespace sampler_ops

std::span<const Row> sampler_rows() { return sampler_ops::kRows; }

}  // namespace tenon::mxnet
