// Rows that change shapes: reshape, transpose, broadcast, repeat, pad.
#include <algorithm>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace shape_ops {
namespace {

// The codes of a reshape. MXNet's older operator and NumPy's extension have different numbers for them.
struct Codes {
  int64_t keep, infer, rest, merge, split, drop;  // drop: skip an axis of size 1
};
constexpr int64_t kNone = INT64_MIN;
constexpr Codes kOld = {0, -1, -2, -3, -4, kNone};
constexpr Codes kNumPy = {-2, -1, -4, -5, -6, -3};

// The two sizes into which `whole` is split; one may be -1.
std::pair<Dim, Dim> split_size(DimTable& dims, Dim whole, int64_t first, int64_t second) {
  auto other = [&](int64_t known) {
    const auto rest = known > 0 ? dims.divide(whole, Dim(known)) : std::nullopt;
    if (!rest)
      throw StatusError(
          invalid("the size " + dims.print(whole) + " does not split by " + std::to_string(known)));
    return *rest;
  };
  if (first == -1) return {other(second), Dim(second)};
  return {Dim(first), other(first)};
}

Dims apply_codes(Call& c, const std::vector<int64_t>& wanted, const Codes& codes, Dims from) {
  DimTable& dims = c.b.dims();
  Dims out;
  size_t at = 0;  // the next axis of `from`
  auto take = [&] {
    if (at >= from.size()) throw StatusError(invalid("the new shape copies more axes than the operand has"));
    return from[at++];
  };
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t code = wanted[i];
    if (code == codes.keep) {
      out.push_back(take());
    } else if (code == codes.infer) {
      out.push_back(Dim(-1));
      ++at;
    } else if (code == codes.rest) {
      while (at < from.size()) out.push_back(take());
    } else if (code == codes.merge) {
      const Dim first = take();
      out.push_back(dims.mul(first, take()));
    } else if (code == codes.split) {
      if (i + 2 >= wanted.size()) throw StatusError(invalid("the new shape ends within a split"));
      const auto [first, second] = split_size(dims, take(), wanted[i + 1], wanted[i + 2]);
      out.push_back(first);
      out.push_back(second);
      i += 2;
    } else if (code == codes.drop) {
      if (dims.equal(take(), Dim(1)) == false) throw StatusError(invalid("a size that is not 1 is dropped"));
    } else if (code < 0) {
      throw StatusError(invalid("the code " + std::to_string(code) + " in the new shape"));
    } else {
      out.push_back(Dim(code));
      ++at;
    }
  }
  return out;
}

ValueId reshape_by(Call& c, std::vector<int64_t> wanted, const Codes& codes, bool reverse) {
  Sizes from = c.shape(c.in[0]);
  if (reverse) {
    std::reverse(from.begin(), from.end());
    std::reverse(wanted.begin(), wanted.end());
  }
  Dims to = apply_codes(c, wanted, codes, std::move(from));
  if (reverse) std::reverse(to.begin(), to.end());
  return c.reshape(c.in[0], std::move(to));
}

Values reshape(Call& c) {
  std::vector<int64_t> wanted = c.a.ints("shape");
  if (!wanted.empty()) return {reshape_by(c, std::move(wanted), kOld, c.a.flag("reverse"))};
  // The oldest form: one 0 is inferred.
  wanted = c.a.ints("target_shape");
  if (wanted.empty()) throw StatusError(invalid("needs the attribute shape"));
  Dims to;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool keep = i == 0 && c.a.flag("keep_highest");
    to.push_back(keep ? c.shape(c.in[0]).at(0) : Dim(wanted[i] == 0 ? -1 : wanted[i]));
  }
  return {c.reshape(c.in[0], std::move(to))};
}
Values np_reshape(Call& c) {
  const auto wanted = c.a.ints("newshape");
  return {c.reshape(c.in[0], Dims(wanted.begin(), wanted.end()))};
}
Values npx_reshape(Call& c) { return {reshape_by(c, c.a.ints("newshape"), kNumPy, c.a.flag("reverse"))}; }
Status check_order(const Ask& ask) {
  return ask.a.text("order") == "C" ? Status() : unsupported("only order=C is translated");
}

Values reshape_like(Call& c) {
  const Sizes from = c.shape(c.in[0]), like = c.shape(c.in[1]);
  auto range = [&](const char* begin, const char* end, size_t rank) {
    auto bound = [&](const char* name, int64_t otherwise) {
      int64_t at = c.a.is_none(name) ? otherwise : c.a.integer(name);
      if (at < 0) at += static_cast<int64_t>(rank);
      return std::clamp<int64_t>(at, 0, static_cast<int64_t>(rank));
    };
    const int64_t first = bound(begin, 0);
    return std::pair(first, std::max(first, bound(end, static_cast<int64_t>(rank))));
  };
  const auto [begin, end] = range("lhs_begin", "lhs_end", from.size());
  const auto [first, last] = range("rhs_begin", "rhs_end", like.size());
  Dims to(from.begin(), from.begin() + begin);
  to.insert(to.end(), like.begin() + first, like.begin() + last);
  to.insert(to.end(), from.begin() + end, from.end());
  return {c.reshape(c.in[0], to)};
}

Values flatten(Call& c) {
  const Sizes shape = c.shape(c.in[0]);
  if (shape.empty()) throw StatusError(invalid("needs a batch axis"));
  return {c.reshape(c.in[0], {shape[0], c.product(shape, 1, shape.size())})};
}

Values transpose(Call& c) {
  const int rank = c.rank(c.in[0]);
  std::vector<int64_t> axes = c.a.is_none("axes") ? std::vector<int64_t>() : c.a.ints("axes");
  if (axes.empty())
    for (int i = rank - 1; i >= 0; --i) axes.push_back(i);
  Dims perm;
  for (const int64_t axis : axes) perm.push_back(Dim(c.axis(axis, rank)));
  return {c.transpose(c.in[0], perm)};
}

Dims identity_perm(int rank) {
  Dims perm;
  for (int i = 0; i < rank; ++i) perm.push_back(Dim(i));
  return perm;
}

Values swap_axes(Call& c) {
  const int rank = c.rank(c.in[0]);
  Dims perm = identity_perm(rank);
  std::swap(perm.at(c.axis(c.a.integer("dim1"), rank)), perm.at(c.axis(c.a.integer("dim2"), rank)));
  return {c.transpose(c.in[0], perm)};
}

Values move_axes(Call& c) {
  const int rank = c.rank(c.in[0]);
  const auto source = c.a.ints("source"), target = c.a.ints("destination");
  if (source.size() != target.size()) throw StatusError(invalid("source and destination differ in length"));
  std::vector<int> perm(rank, -1);
  std::vector<bool> used(rank);
  for (size_t i = 0; i < source.size(); ++i) {
    const int from = c.axis(source[i], rank);
    perm.at(c.axis(target[i], rank)) = from;
    used.at(from) = true;
  }
  Dims out;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    while (perm[i] < 0 && next < rank && used[next]) ++next;
    out.push_back(Dim(perm[i] >= 0 ? perm[i] : next++));
  }
  return {c.transpose(c.in[0], out)};
}

Values expand_dims(Call& c) {
  Sizes shape = c.shape(c.in[0]);
  const int at = c.axis(c.a.integer("axis"), static_cast<int>(shape.size()) + 1);
  shape.insert(shape.begin() + at, Dim(1));
  return {c.reshape(c.in[0], shape)};
}

Values squeeze(Call& c) {
  const Sizes shape = c.shape(c.in[0]);
  const int rank = static_cast<int>(shape.size());
  std::vector<bool> drop(shape.size());
  if (c.a.is_none("axis")) {
    for (int i = 0; i < rank; ++i) {
      if (!shape[i].is_const()) throw StatusError(unsupported("whether a symbolic size is 1 is not known"));
      drop[i] = shape[i] == Dim(1);
    }
  } else {
    for (const int64_t axis : c.a.ints("axis")) drop.at(c.axis(axis, rank)) = true;
  }
  Dims to;
  for (int i = 0; i < rank; ++i) {
    if (!drop[i]) to.push_back(shape[i]);
    if (drop[i] && shape[i].is_const() && shape[i] != Dim(1))
      throw StatusError(
          invalid("axis " + std::to_string(i) + " has size " + std::to_string(shape[i].value())));
  }
  // MXNet's older operators have no scalars.
  if (to.empty() && c.node.op == "squeeze") to.push_back(Dim(1));
  return {c.reshape(c.in[0], to)};
}

Values expand_to(Call& c, Dims shape) { return {c(ops::expand, {c.in[0]}, {{"shape", std::move(shape)}})}; }

Values broadcast_axis(Call& c) {
  Sizes shape = c.shape(c.in[0]);
  const auto axes = c.a.ints("axis"), sizes = c.a.ints("size");
  if (axes.size() != sizes.size()) throw StatusError(invalid("axis and size differ in length"));
  for (size_t i = 0; i < axes.size(); ++i)
    shape.at(c.axis(axes[i], static_cast<int>(shape.size()))) = Dim(sizes[i]);
  return expand_to(c, shape);
}

// 0 (NumPy's: -2) keeps a size.
template <int64_t keep>
Values broadcast_to(Call& c) {
  const Sizes from = c.shape(c.in[0]);
  const auto wanted = c.a.ints("shape");
  Dims to;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t behind = wanted.size() - i;
    const bool kept = wanted[i] == keep && behind <= from.size();
    to.push_back(kept ? from[from.size() - behind] : Dim(wanted[i]));
  }
  return expand_to(c, to);
}

Values broadcast_like(Call& c) {
  Sizes to = c.shape(c.in[0]);
  const Sizes like = c.shape(c.in[1]);
  if (c.a.is_none("lhs_axes") || c.a.is_none("rhs_axes")) return expand_to(c, like);
  const auto ours = c.a.ints("lhs_axes"), theirs = c.a.ints("rhs_axes");
  if (ours.size() != theirs.size()) throw StatusError(invalid("lhs_axes and rhs_axes differ in length"));
  for (size_t i = 0; i < ours.size(); ++i)
    to.at(c.axis(ours[i], static_cast<int>(to.size()))) =
        like.at(c.axis(theirs[i], static_cast<int>(like.size())));
  return expand_to(c, to);
}

// [.., n, ..] -> [.., n, 1, ..] -> [.., n, times, ..] -> [.., n * times, ..]: each element `times` times in a row.
ValueId repeat_axis(Call& c, ValueId v, int axis, Dim times) {
  Sizes split = c.shape(v), merged = split;
  split.insert(split.begin() + axis + 1, Dim(1));
  Dims wide = split;
  wide[axis + 1] = times;
  merged[axis] = c.b.dims().mul(merged[axis], times);
  return c.reshape(c(ops::expand, {c.reshape(v, split)}, {{"shape", wide}}), merged);
}

Values repeat(Call& c) {
  ValueId x = c.in[0];
  const Dim times(c.a.integer("repeats"));
  if (!c.a.is_none("axis")) return {repeat_axis(c, x, c.axis(c.a.integer("axis"), c.rank(x)), times)};
  x = c.reshape(x, {c.product(c.shape(x), 0, c.shape(x).size())});
  return {repeat_axis(c, x, 0, times)};
}

Values tile(Call& c) {
  ValueId x = c.in[0];
  auto reps = c.a.ints("reps");
  if (reps.size() > static_cast<size_t>(kMaxRank)) throw StatusError(unsupported("too many axes"));
  Sizes shape = c.shape(x);
  while (shape.size() < reps.size()) shape.insert(shape.begin(), Dim(1));
  while (reps.size() < shape.size()) reps.insert(reps.begin(), 1);
  Dims split, wide, merged;
  for (size_t i = 0; i < reps.size(); ++i) {
    split.push_back(Dim(1));
    wide.push_back(Dim(reps[i]));
    split.push_back(shape[i]);
    wide.push_back(shape[i]);
    merged.push_back(c.b.dims().mul(shape[i], Dim(reps[i])));
  }
  if (wide.size() > static_cast<size_t>(kMaxRank)) throw StatusError(unsupported("too many axes"));
  return {c.reshape(c(ops::expand, {c.reshape(x, split)}, {{"shape", wide}}), merged)};
}

Values flip(Call& c) {
  Dims axes;
  for (const int64_t axis : c.a.ints("axis")) axes.push_back(Dim(c.axis(axis, c.rank(c.in[0]))));
  return {axes.empty() ? c.in[0] : c(ops::flip, {c.in[0]}, {{"axes", axes}})};
}
Values np_flip(Call& c) {
  if (c.a.is_none("axis")) return {c(ops::flip, {c.in[0]}, {{"axes", Dims{}}})};
  return flip(c);
}

// Moves elements by `shift` places along an axis, the last to the front.
ValueId roll_axis(Call& c, ValueId v, int axis, int64_t shift) {
  const Dim size = c.shape(v)[static_cast<size_t>(axis)];
  if (!size.is_const()) throw StatusError(unsupported("a roll along a symbolic size is not translated"));
  const int64_t n = size.value(), by = n == 0 ? 0 : ((shift % n) + n) % n;
  if (by == 0) return v;
  const ValueId end = c.slice(v, axis, Dim(n - by), size), begin = c.slice(v, axis, Dim(0), Dim(n - by));
  return c(ops::concat, {end, begin}, {{"axis", Dim(axis)}});
}
Values roll(Call& c) {
  ValueId x = c.in[0];
  if (c.a.is_none("shift")) throw StatusError(invalid("needs the attribute shift"));
  const auto shifts = c.a.ints("shift");
  if (c.a.is_none("axis")) {
    const Sizes shape = c.shape(x);
    x = c.reshape(x, {c.product(shape, 0, shape.size())});
    for (const int64_t by : shifts) x = roll_axis(c, x, 0, by);
    return {c.reshape(x, shape)};
  }
  const auto axes = c.a.ints("axis");
  const bool fit = axes.size() == shifts.size() || axes.size() == 1 || shifts.size() == 1;
  if (axes.empty() || shifts.empty() || !fit) throw StatusError(invalid("shift and axis differ in length"));
  for (size_t i = 0; i < std::max(axes.size(), shifts.size()); ++i)
    x = roll_axis(c, x, c.axis(axes[axes.size() == 1 ? 0 : i], c.rank(x)),
                  shifts[shifts.size() == 1 ? 0 : i]);
  return {x};
}

// Turns by k quarters in the plane of two axes, from the first towards the second.
Values rotate(Call& c) {
  const ValueId x = c.in[0];
  const auto axes = c.a.is_none("axes") ? std::vector<int64_t>{0, 1} : c.a.ints("axes");
  if (axes.size() != 2) throw StatusError(invalid("axes needs two values"));
  const int first = c.axis(axes[0], c.rank(x)), second = c.axis(axes[1], c.rank(x));
  const int64_t quarters = ((c.a.integer("k") % 4) + 4) % 4;
  auto mirrored = [&](ValueId v, Dims along) { return c(ops::flip, {v}, {{"axes", std::move(along)}}); };
  if (quarters == 0) return {x};
  if (quarters == 2) return {mirrored(x, {Dim(first), Dim(second)})};
  Dims perm = identity_perm(c.rank(x));
  std::swap(perm.at(first), perm.at(second));
  if (quarters == 1) return {c.transpose(mirrored(x, {Dim(second)}), perm)};
  return {mirrored(c.transpose(x, perm), {Dim(second)})};
}

// Indices 0, 0, 1, 2, .., n-1, n-1 (edge) or 2, 1, 0, 1, 2, .. (reflect) along the axis.
ValueId pad_axis(Call& c, ValueId v, int axis, int64_t low, int64_t high, bool reflect) {
  const Dim size = c.shape(v)[axis];
  std::vector<ValueId> parts;
  auto slice = [&](Dim start, Dim end) { return c.slice(v, axis, start, end); };
  auto mirrored = [&](Dim start, Dim end) {
    return c(ops::flip, {slice(start, end)}, {{"axes", Dims{Dim(axis)}}});
  };
  auto repeated = [&](Dim start, int64_t times) {
    Sizes shape = c.shape(v);
    shape[axis] = Dim(times);
    return c(ops::expand, {slice(start, c.b.dims().add(start, Dim(1)))}, {{"shape", shape}});
  };
  DimTable& dims = c.b.dims();
  const Dim last = dims.sub(size, Dim(1));
  if (low > 0) parts.push_back(reflect ? mirrored(Dim(1), Dim(low + 1)) : repeated(Dim(0), low));
  parts.push_back(v);
  if (high > 0) parts.push_back(reflect ? mirrored(dims.sub(last, Dim(high)), last) : repeated(last, high));
  return parts.size() == 1 ? v : c(ops::concat, parts, {{"axis", Dim(axis)}});
}

Values pad_by(Call& c, const std::vector<int64_t>& widths) {
  ValueId x = c.in[0];
  if (widths.size() != 2 * static_cast<size_t>(c.rank(x)))
    throw StatusError(invalid("pad_width needs two values per axis"));
  const std::string_view mode = c.a.text("mode");
  Dims low, high;
  for (size_t i = 0; i < widths.size(); i += 2) {
    if (widths[i] < 0 || widths[i + 1] < 0) throw StatusError(invalid("pad_width is negative"));
    low.push_back(Dim(widths[i]));
    high.push_back(Dim(widths[i + 1]));
    if (mode != "constant")
      x = pad_axis(c, x, static_cast<int>(i / 2), widths[i], widths[i + 1], mode == "reflect");
  }
  if (mode != "constant") return {x};
  const double value = c.a.number("constant_value");
  const Scalar scalar = is_float(c.dtype(x)) ? Scalar::of(value) : Scalar::of(static_cast<int64_t>(value));
  return {c(ops::pad, {x}, {{"low", low}, {"high", high}, {"value", scalar}})};
}

Values pad(Call& c) { return pad_by(c, c.a.ints("pad_width")); }

// NumPy's widths are pairs in a tuple.
Values np_pad(Call& c) {
  std::string flat(c.a.text("pad_width"));
  std::erase_if(flat, [](char x) { return x == '(' || x == ')' || x == '[' || x == ']' || x == ' '; });
  std::vector<int64_t> widths;
  const auto tuple = read_attr_tuple("(" + flat + ")");
  if (!tuple) throw StatusError(invalid("pad_width is no tuple of pairs"));
  for (const std::optional<int64_t>& n : *tuple) widths.push_back(n.value_or(-1));
  return pad_by(c, widths);
}
Status check_np_pad(const Ask& ask) {
  return ask.a.text("reflect_type") == "even" ? Status()
                                              : unsupported("only reflect_type=even is translated");
}

// [N, C, H, W] and blocks of b x b. Depth to space: [N, b, b, C/b^2, H, W] -> [N, C/b^2, H, b, W, b].
template <bool to_space>
Values blocks(Call& c) {
  const ValueId x = c.in[0];
  const Sizes shape = c.shape(x);
  const Dim b(c.a.integer("block_size"));
  if (shape.size() != 4 || b.value() < 1)
    throw StatusError(invalid("needs rank 4 and block_size of at least 1"));
  DimTable& dims = c.b.dims();
  auto divide = [&](Dim size, Dim by) {
    const auto out = dims.divide(size, by);
    if (!out) throw StatusError(invalid("block_size does not divide the size " + dims.print(size)));
    return *out;
  };
  if (to_space) {
    const Dim depth = divide(shape[1], dims.mul(b, b));
    const ValueId split = c.reshape(x, {shape[0], b, b, depth, shape[2], shape[3]});
    const ValueId moved = c.transpose(split, {Dim(0), Dim(3), Dim(4), Dim(1), Dim(5), Dim(2)});
    return {c.reshape(moved, {shape[0], depth, dims.mul(shape[2], b), dims.mul(shape[3], b)})};
  }
  const Dim height = divide(shape[2], b), width = divide(shape[3], b);
  const ValueId split = c.reshape(x, {shape[0], shape[1], height, b, width, b});
  const ValueId moved = c.transpose(split, {Dim(0), Dim(3), Dim(5), Dim(1), Dim(2), Dim(4)});
  return {c.reshape(moved, {shape[0], dims.mul(shape[1], dims.mul(b, b)), height, width})};
}

const Row kRows[] = {
    {.names = "Reshape reshape",
     .attrs = "shape:shape=() reverse:bool=False target_shape:shape=() keep_highest:bool=False",
     .body = reshape},
    {.names = "_np_reshape",
     .operands = "a",
     .attrs = "newshape:shape order:text=C",
     .body = np_reshape,
     .check = check_order},
    {.names = "_npx_reshape",
     .operands = "a",
     .attrs = "newshape:shape reverse:bool=False order:text=C",
     .body = npx_reshape,
     .check = check_order},
    {.names = "reshape_like _npx_reshape_like",
     .operands = "lhs rhs",
     .attrs = "lhs_begin:int?=None lhs_end:int?=None rhs_begin:int?=None rhs_end:int?=None",
     .body = reshape_like,
     .mixed = true},
    {.names = "Flatten flatten _npx_batch_flatten", .body = flatten},
    {.names = "transpose", .attrs = "axes:shape=()", .body = transpose},
    {.names = "_np_transpose", .operands = "a", .attrs = "axes:shape?=None", .body = transpose},
    {.names = "SwapAxis swapaxes _npi_swapaxes", .attrs = "dim1:int=0 dim2:int=0", .body = swap_axes},
    {.names = "_np_moveaxis", .operands = "a", .attrs = "source:shape destination:shape", .body = move_axes},
    {.names = "expand_dims _npi_expand_dims", .attrs = "axis:int", .body = expand_dims},
    {.names = "squeeze _np_squeeze", .attrs = "axis:shape?=None", .body = squeeze},
    {.names = "broadcast_axis broadcast_axes",
     .attrs = "axis:shape=() size:shape=()",
     .body = broadcast_axis},
    {.names = "broadcast_to", .attrs = "shape:shape=()", .body = broadcast_to<0>},
    {.names = "_npi_broadcast_to", .operands = "array", .attrs = "shape:shape=()", .body = broadcast_to<-2>},
    {.names = "broadcast_like",
     .operands = "lhs rhs",
     .attrs = "lhs_axes:shape?=None rhs_axes:shape?=None",
     .body = broadcast_like,
     .mixed = true},
    {.names = "repeat _np_repeat", .attrs = "repeats:int axis:int?=None", .body = repeat},
    {.names = "tile _npi_tile", .attrs = "reps:shape", .body = tile},
    {.names = "reverse flip", .attrs = "axis:shape", .body = flip, .complete = same_shapes},
    {.names = "_npi_flip", .attrs = "axis:shape?", .body = np_flip, .complete = same_shapes},
    {.names = "Pad pad",
     .attrs = "mode:text{constant,edge,reflect} pad_width:shape constant_value:double=0",
     .body = pad},
    {.names = "_npi_pad",
     .attrs = "pad_width:text mode:text{constant,edge,reflect}=constant constant_value:double=0 "
              "reflect_type:text=even",
     .body = np_pad,
     .check = check_np_pad},
    {.names = "_np_roll",
     .attrs = "shift:shape?=None axis:shape?=None",
     .body = roll,
     .complete = same_shapes},
    {.names = "_npi_rot90", .attrs = "k:int=1 axes:shape?=None", .body = rotate},
    {.names = "depth_to_space", .attrs = "block_size:int", .body = blocks<true>},
    {.names = "space_to_depth", .attrs = "block_size:int", .body = blocks<false>},
};

}  // namespace
}  // namespace shape_ops

std::span<const Row> shape_rows() { return shape_ops::kRows; }

}  // namespace tenon::mxnet
