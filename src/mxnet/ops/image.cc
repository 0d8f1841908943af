// Rows of images and boxes. Images are [H, W, C] or [N, H, W, C] where the operator's name begins with _image, else [N, C, H, W].
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace image_ops {
namespace {

// The axis counted from the end: -3 height, -2 width.
int image_axis(Call& c, int from_end) {
  if (c.rank(c.in[0]) != 3 && c.rank(c.in[0]) != 4) throw StatusError(invalid("needs an image or several"));
  return c.rank(c.in[0]) + from_end;
}
template <int from_end>
Values flip(Call& c) {
  return {c(ops::flip, {c.in[0]}, {{"axes", Dims{Dim(image_axis(c, from_end))}}})};
}
Values crop(Call& c) {
  const Dim x(c.a.integer("x")), y(c.a.integer("y"));
  DimTable& dims = c.b.dims();
  const ValueId rows = c.slice(c.in[0], image_axis(c, -3), y, dims.add(y, Dim(c.a.integer("height"))));
  return {c.slice(rows, image_axis(c, -2), x, dims.add(x, Dim(c.a.integer("width"))))};
}
// Bytes as numbers in [0, 1], the channels first.
Values to_tensor(Call& c) {
  const int height = image_axis(c, -3);
  const ValueId x = c.cast(c.in[0], DType::f32);
  Dims perm;
  for (int i = 0; i < height; ++i) perm.push_back(Dim(i));
  for (const int i : {height + 2, height, height + 1}) perm.push_back(Dim(i));
  return {c.transpose(c(ops::div, {x, c.like(x, 255)}), perm)};
}

// "(0.5, 1)" or "0.5" as numbers.
std::vector<double> read_numbers(std::string_view text) {
  std::vector<double> out;
  std::string word;
  for (const char l : std::string(text) + ",") {
    if (l == '(' || l == ')' || l == '[' || l == ']' || l == ' ') continue;
    if (l != ',') {
      word += l;
      continue;
    }
    if (word.empty()) continue;
    const auto number = read_attr_float(word);
    if (!number) throw StatusError(invalid("no tuple of numbers: " + word.substr(0, 20)));
    out.push_back(*number);
    word.clear();
  }
  return out;
}
// (x - mean) / std by channel, of [C, H, W] or [N, C, H, W].
Values normalize(Call& c) {
  const ValueId x = c.in[0];
  const Dim channels = c.shape(x)[static_cast<size_t>(image_axis(c, -3))];
  if (!channels.is_const() || channels.value() > 64)
    throw StatusError(unsupported("the channels are symbolic or many"));
  auto vector = [&](const char* name) {
    const std::vector<double> numbers = read_numbers(c.a.text(name));
    std::vector<ValueId> parts;
    for (size_t i = 0; i < static_cast<size_t>(channels.value()); ++i) {
      if (numbers.size() != 1 && i >= numbers.size())
        throw StatusError(invalid(std::string(name) + " has too few values"));
      parts.push_back(c.full({Dim(1)}, c.dtype(x), numbers[numbers.size() == 1 ? 0 : i]));
    }
    if (parts.empty()) throw StatusError(invalid("needs a channel"));
    return c.reshape(c(ops::concat, parts, {{"axis", Dim(0)}}), {channels, Dim(1), Dim(1)});
  };
  return {c(ops::div, {c(ops::sub, {x, vector("mean")}), vector("std")})};
}

// Linear interpolation along the axis at positions `at`, a vector of f32 in [0, size - 1].
ValueId interpolate(Call& c, ValueId x, int axis, ValueId at) {
  const Dim size = c.shape(x)[axis];
  const ValueId low = c.cast(at, DType::i64);
  const ValueId last = size.is_const() ? c.like(low, static_cast<double>(size.value() - 1))
                                       : c(ops::sub, {c.b.size(size, DType::i64), c.like(low, 1)});
  const ValueId high = c(ops::minimum, {c(ops::add, {low, c.like(low, 1)}), last});
  Dims column(static_cast<size_t>(c.rank(x)), Dim(1));
  column[static_cast<size_t>(axis)] = c.shape(at)[0];
  const ValueId share = c.reshape(c.cast(c(ops::sub, {at, c.cast(low, DType::f32)}), c.dtype(x)), column);
  auto part = [&](ValueId index) {
    return c(ops::gather, {x, index}, {{"axis", Dim(axis)}, {"wrap", false}});
  };
  const ValueId rest = c(ops::sub, {c.like(share, 1), share});
  return c(ops::add, {c(ops::mul, {rest, part(low)}), c(ops::mul, {share, part(high)})});
}

// Positions of `out` elements among `in` ones. A single one is at 0, as in MXNet.
ValueId resize_positions(Call& c, Dim in, Dim out, bool corners) {
  const ValueId i = c(ops::iota, {}, {{"shape", Dims{out}}, {"dtype", DType::f32}});
  if (out == Dim(1)) return c(ops::mul, {i, c.like(i, 0)});
  const ValueId from = c.b.size(in, DType::f32), to = c.b.size(out, DType::f32);
  if (corners) {
    auto less = [&](ValueId v) { return c(ops::sub, {v, c.like(v, 1)}); };
    return c(ops::mul, {i, c(ops::div, {less(from), less(to)})});
  }
  const ValueId middle = c(ops::mul, {c(ops::add, {i, c.like(i, 0.5)}), c(ops::div, {from, to})});
  return c(ops::maximum, {c(ops::sub, {middle, c.like(i, 0.5)}), c.like(i, 0)});
}

Values bilinear_resize(Call& c) {
  ValueId x = c.in[0];
  const char* const sizes[] = {"height", "width"};
  const char* const scales[] = {"scale_height", "scale_width"};
  const Sizes given = shape_of_rank(c, x, 4);
  for (int i = 0; i < 2; ++i) {
    const Dim in = given[static_cast<size_t>(2 + i)];
    Dim out(c.a.integer(sizes[i]));
    if (c.a.text("mode") == "like") {
      out = c.shape(c.in.at(1)).at(2 + i);
    } else if (!c.a.is_none(scales[i])) {
      if (!in.is_const()) throw StatusError(unsupported("scales of a symbolic size are not translated"));
      out = Dim(static_cast<int64_t>(c.a.number(scales[i]) * static_cast<double>(in.value())));
    }
    if (out == in) continue;
    x = interpolate(c, x, 2 + i, resize_positions(c, in, out, c.a.flag("align_corners")));
  }
  return {x};
}
Status check_resize(const Ask& ask) {
  const std::string_view mode = ask.a.text("mode");
  if ((mode == "like") != (ask.node.inputs.size() == 2))
    return invalid("mode=like takes two operands, others one");
  return mode == "like" || mode == "size" ? Status()
                                          : unsupported("mode=" + std::string(mode) + " is not translated");
}

// A column of boxes [..., 4].
ValueId column(Call& c, ValueId boxes, int64_t which) {
  const int rank = c.rank(boxes);
  if (rank < 1) throw StatusError(invalid("needs boxes"));
  return c.slice(boxes, rank - 1, Dim(which), Dim(which + 1));
}
struct Box {
  ValueId left, top, right, bottom;
};
Box corners(Call& c, ValueId boxes, bool center) {
  Box b{column(c, boxes, 0), column(c, boxes, 1), column(c, boxes, 2), column(c, boxes, 3)};
  if (!center) return b;
  auto side = [&](OpId op, ValueId middle, ValueId size) {
    return c(op, {middle, c(ops::mul, {size, c.like(size, 0.5)})});
  };
  return {side(ops::sub, b.left, b.right), side(ops::sub, b.top, b.bottom), side(ops::add, b.left, b.right),
          side(ops::add, b.top, b.bottom)};
}

// Intersection over union of all pairs: [left boxes..., right boxes...].
Values box_iou(Call& c) {
  const bool center = c.a.text("format") == "center";
  Dims out = c.shape(c.in[0]), other = c.shape(c.in[1]);
  if (out.empty() || other.empty()) throw StatusError(invalid("needs boxes"));
  out.pop_back();
  out.insert(out.end(), other.begin(), other.end() - 1);
  auto flat = [&](ValueId v, bool as_row) {
    const Sizes shape = c.shape(v);
    const Dim n = c.product(shape, 0, shape.size() - 1);
    return c.reshape(v, as_row ? Dims{Dim(1), n, Dim(4)} : Dims{n, Dim(1), Dim(4)});
  };
  const Box a = corners(c, flat(c.in[0], false), center), b = corners(c, flat(c.in[1], true), center);
  auto positive = [&](ValueId high, ValueId low) {
    const ValueId size = c(ops::sub, {high, low});
    return c(ops::maximum, {size, c.like(size, 0)});
  };
  auto area = [&](const Box& x) {
    return c(ops::mul, {positive(x.right, x.left), positive(x.bottom, x.top)});
  };
  const ValueId width = positive(c(ops::minimum, {a.right, b.right}), c(ops::maximum, {a.left, b.left}));
  const ValueId height = positive(c(ops::minimum, {a.bottom, b.bottom}), c(ops::maximum, {a.top, b.top}));
  const ValueId common = c(ops::mul, {width, height}), zero = c.like(common, 0);
  const ValueId all = c(ops::sub, {c(ops::add, {area(a), area(b)}), common});
  const ValueId ratio = c(ops::where, {c(ops::le, {common, zero}), zero, c(ops::div, {common, all})});
  return {c.reshape(ratio, out)};
}

// Offsets from anchors as corners.
Values box_decode(Call& c) {
  const ValueId x = c.in[0], anchors = c.in[1];
  ValueId centers[2], sizes[2];
  for (int i = 0; i < 2; ++i) {
    centers[i] = column(c, anchors, i), sizes[i] = column(c, anchors, 2 + i);
    if (c.a.text("format") == "center") continue;
    sizes[i] = c(ops::sub, {sizes[i], centers[i]});
    centers[i] = c(ops::add, {centers[i], c(ops::mul, {sizes[i], c.like(x, 0.5)})});
  }
  const char* const deviations[] = {"std0", "std1", "std2", "std3"};
  ValueId parts[4];
  for (int i = 0; i < 2; ++i) {
    auto offset = [&](int k) { return c(ops::mul, {column(c, x, k), c.like(x, c.a.number(deviations[k]))}); };
    const ValueId middle = c(ops::add, {c(ops::mul, {offset(i), sizes[i]}), centers[i]});
    ValueId growth = offset(2 + i);
    if (const double most = c.a.number("clip"); most > 0)
      growth = c(ops::minimum, {growth, c.like(growth, most)});
    const ValueId half = c(ops::mul, {c(ops::mul, {c(ops::exp, {growth}), sizes[i]}), c.like(x, 0.5)});
    parts[i] = c(ops::sub, {middle, half});
    parts[2 + i] = c(ops::add, {middle, half});
  }
  return {c(ops::concat, {parts[0], parts[1], parts[2], parts[3]}, {{"axis", Dim(-1)}})};
}

const Row kRows[] = {
    {.names = "_image_flip_left_right", .body = flip<-2>, .complete = same_shapes},
    {.names = "_image_flip_top_bottom", .body = flip<-3>, .complete = same_shapes},
    {.names = "_image_crop _npx__image_crop", .attrs = "x:int y:int width:int height:int", .body = crop},
    {.names = "_image_to_tensor _npx__image_to_tensor", .body = to_tensor},
    {.names = "_image_normalize _npx__image_normalize",
     .attrs = "mean:text=(0,0,0,0) std:text=(1,1,1,1)",
     .body = normalize,
     .complete = same_shapes},
    {.names = "_contrib_BilinearResize2D",
     .operands = "data like?",
     .attrs = "height:int=1 width:int=1 scale_height:float?=None scale_width:float?=None "
              "mode:text{like,odd_scale,size,to_even_down,to_even_up,to_odd_down,to_odd_up}=size "
              "align_corners:bool=True",
     .body = bilinear_resize,
     .check = check_resize},
    {.names = "_contrib_box_iou",
     .operands = "lhs rhs",
     .attrs = "format:text{center,corner}=corner",
     .body = box_iou},
    {.names = "_contrib_box_decode",
     .operands = "data anchors",
     .attrs = "std0:float=1.0 std1:float=1.0 std2:float=1.0 std3:float=1.0 clip:float=-1.0 "
              "format:text{center,corner}=center",
     .body = box_decode},
};

}  // namespace
}  // namespace image_ops

std::span<const Row> image_rows() { return image_ops::kRows; }

}  // namespace tenon::mxnet
