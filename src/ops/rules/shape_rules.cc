// See rules.h. This file has what the rules share, and the rules of graph, map, reduce and move rows.
#include <algorithm>

#include "src/ops/rules/put_mode.h"
#include "src/ops/rules/rule_help.h"

namespace tenon {

std::optional<int> normal_axis(int64_t axis, int rank) {
  const int n = std::max(rank, 1);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

Result<std::vector<bool>> axis_flags(const std::vector<int64_t>& axes, int rank) {
  std::vector<bool> flags(rank, axes.empty());
  std::vector<bool> seen(std::max(rank, 1));
  for (int64_t axis : axes) {
    auto normal = normal_axis(axis, rank);
    if (!normal)
      return invalid("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
    if (seen[*normal]) return invalid("axis " + std::to_string(axis) + " is listed twice");
    seen[*normal] = true;
    if (rank > 0) flags[*normal] = true;
  }
  return flags;
}

Result<Dims> broadcast_shapes(const InferContext& c, const Dims& a, const Dims& b, size_t behind) {
  Dims out(std::max(a.size(), b.size()), Dim(1));
  std::copy(a.begin(), a.end(), out.end() - static_cast<ptrdiff_t>(a.size()));
  for (size_t i = 0; i < b.size(); ++i) {
    const size_t axis = out.size() - b.size() + i;
    Dim& size = out[axis];
    if (b[i] == size || b[i] == Dim(1)) continue;
    if (size == Dim(1)) {
      size = b[i];
      continue;
    }
    if (size.is_const() && b[i].is_const()) return invalid("do not broadcast");
    const std::optional<bool> same = c.dims.equal(size, b[i]);
    if (same == true) continue;
    if (!c.claim) return unsupported("cannot be shown to broadcast: symbolic sizes differ");
    if (!same) {
      c.claim->needed.push_back({size, b[i]});
      continue;
    }
    // One of the two is 1: the one that the claim does not name.
    const Dims& claimed = c.claim->shape;
    const bool first = claimed.size() == out.size() + behind ? claimed[axis] != size : !size.is_const();
    const Dim one = first ? size : b[i];
    if (c.dims.equal(one, Dim(1)) == false) return invalid("do not broadcast");
    c.claim->needed.push_back({one, Dim(1)});
    if (first) size = b[i];
  }
  return out;
}

Result<std::vector<int64_t>> Rule::ints(std::string_view name) const {
  std::vector<int64_t> out;
  for (Dim d : dims(name)) {
    if (!d.is_const())
      return refuse("attribute " + std::string(name) + " must be constant, not " + print(dims(name)));
    out.push_back(d.value());
  }
  return out;
}

Result<int64_t> Rule::integer(std::string_view name) const {
  const Dim d = attr_as<Dim>(c.node, name);
  if (!d.is_const()) return refuse("attribute " + std::string(name) + " must be constant, not " + print(d));
  return d.value();
}

Result<int> Rule::axis(std::string_view name) const {
  TENON_ASSIGN(const int64_t given, integer(name));
  if (auto normal = normal_axis(given, rank())) return *normal;
  return refuse("axis " + std::to_string(given) + " is out of range for rank " + std::to_string(rank()));
}

Status Rule::agree(Dim a, Dim b, const std::string& what) const {
  if (a == b) return {};
  const std::optional<bool> same = c.dims.equal(a, b);
  if (same == true) return {};
  const std::string text = what + ": " + print(a) + " and " + print(b);
  if (same == false) return refuse(text + " differ");
  if (!c.claim) return decline(text + " cannot be shown to be equal");
  c.claim->needed.push_back({a, b});
  return {};
}

bool Rule::divides(Dim by, Dim size) const {
  if (c.dims.divide(size, by)) return true;
  if (!c.claim || by == Dim(0)) return false;
  const Dim rest = c.dims.mod(size, by);
  if (c.dims.equal(rest, Dim(0)) == false) return false;
  c.claim->needed.push_back({rest, Dim(0)});
  return true;
}

Status Rule::bounds(Dim start, Dim end, Dim size) const {
  auto wrong = [&](Dim low, Dim high) {
    const Dim gap = c.dims.sub(high, low);  // overflow means far from being provably right
    return (gap.is_const() && gap.value() < 0) || c.dims.is_overflow(gap);
  };
  if (!wrong(0, start) && !wrong(start, end) && !wrong(end, size)) return {};
  return refuse("bounds " + print(start) + " to " + print(end) + " do not lie within size " + print(size));
}

Status Rule::at_least(std::span<const Dim> sizes, int64_t low, std::string_view name) const {
  for (Dim d : sizes)
    if (d.is_const() && d.value() < low)
      return refuse(std::string(name) + " " + print(sizes) + " must be at least " + std::to_string(low));
  return {};
}

Status Rule::amounts(std::span<const Dim> amounts, int64_t low, std::string_view name) const {
  TENON_TRY(at_least(amounts, low, name));
  for (Dim d : amounts)
    if (d.is_const() && d.value() > kMostOfWindow)
      return decline(std::string(name) + " " + print(amounts) + " must be at most " +
                     std::to_string(kMostOfWindow));
  return {};
}

Result<Dim> Rule::positions(Dim size, Dim kernel, Dim stride, Dim dilation) const {
  const Dim reach = c.dims.mul(dilation, c.dims.sub(kernel, 1));
  const Dim rest = c.dims.sub(c.dims.sub(size, reach), 1);
  if (rest.is_const() && rest.value() < 0)
    return refuse("a window of " + print(kernel) + " with dilation " + print(dilation) +
                  " is larger than the " + print(size) + " elements it moves over");
  return c.dims.add(c.dims.floor_div(rest, stride), 1);
}

Status Rule::has_element(int axis) const {
  if (rank() == 0 || shape(0)[axis] != Dim(0)) return {};
  const Dim count = c.dims.product(shape(1));
  if (!count.is_const() || count == Dim(0)) return {};
  return refuse("no element to take along axis " + std::to_string(axis));
}

Result<bool> Rule::last(const std::string& what) const {
  const std::string& layout = attr_as<std::string>(c.node, "layout");
  if (layout == what + "_last") return true;
  if (layout == what + "_first") return false;
  return refuse("layout is neither " + what + "_first nor " + what + "_last: " + layout);
}

namespace shapes {

Result<Dims> declared(InferContext& c) { return c.node.type.shape; }

Result<Dims> from_shape(InferContext& c) {
  const Rule r(c);
  TENON_TRY(r.at_least(r.dims("shape"), 0, "shape"));
  return r.dims("shape");
}

Result<Dims> constant(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const std::vector<int64_t> shape, r.ints("shape"));
  TENON_TRY(r.at_least(r.dims("shape"), 0, "shape"));
  const auto& data = attr_as<std::shared_ptr<ConstantData>>(c.node, "data");
  if (!data) return r.refuse("has no data");
  int64_t bytes = size_of(attr_as<DType>(c.node, "dtype"));
  bool overflow = false;
  for (int64_t size : shape) overflow |= size != 0 && __builtin_mul_overflow(bytes, size, &bytes);
  for (int64_t size : shape)
    if (size == 0) bytes = 0;
  if (overflow || static_cast<uint64_t>(bytes) != data->size)
    return r.refuse("shape " + r.print(r.dims("shape")) + " does not fit " + std::to_string(data->size) +
                    " bytes of data");
  return r.dims("shape");
}

Result<Dims> iota(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(Dims shape, from_shape(c));
  TENON_ASSIGN(const int64_t axis, r.integer("axis"));
  if (!normal_axis(axis, static_cast<int>(shape.size())))
    return r.refuse("axis " + std::to_string(axis) + " is out of range for shape " + r.print(shape));
  return shape;
}

Result<Dims> seeded(InferContext& c) {
  const Rule r(c);
  if (r.rank() != 0) return r.refuse("the seed must be a scalar, not of shape " + r.print(r.shape(0)));
  return from_shape(c);
}

Result<Dims> scalar(InferContext&) { return Dims{}; }

Result<Dims> same(InferContext& c) { return c.operand(0).shape; }

Result<Dims> gelu(InferContext& c) {
  const std::string& form = attr_as<std::string>(c.node, "approximate");
  if (form != "none" && form != "tanh")
    return Rule(c).refuse("approximate is neither none nor tanh: " + form);
  return same(c);
}

Result<Dims> same_axis(InferContext& c) {
  TENON_ASSIGN(const int axis, Rule(c).axis("axis"));
  static_cast<void>(axis);
  return c.operand(0).shape;
}

Result<Dims> broadcast(InferContext& c) {
  const Rule r(c);
  Dims out = r.shape(0);
  for (int i = 1; i < r.operands(); ++i) {
    auto wider = broadcast_shapes(c, out, r.shape(i));
    if (!wider.ok()) {
      const std::string text =
          "shapes " + r.print(out) + " and " + r.print(r.shape(i)) + " " + wider.status().message();
      return wider.status().code() == Code::invalid ? r.refuse(text) : r.decline(text);
    }
    out = std::move(*wider);
  }
  return out;
}

Result<Dims> reduce(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const std::vector<int64_t> axes, r.ints("axes"));
  auto flags = axis_flags(axes, r.rank());
  if (!flags.ok()) return r.prefix(flags.status());
  const bool keep = attr_as<bool>(c.node, "keepdims");
  Dims out;
  for (int i = 0; i < r.rank(); ++i) {
    if (!(*flags)[i])
      out.push_back(r.shape(0)[i]);
    else if (keep)
      out.push_back(Dim(1));
  }
  return out;
}

Result<Dims> reduce_axis(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int axis, r.axis("axis"));
  Dims out = r.shape(0);
  if (out.empty()) return out;
  if (out[axis] == Dim(0)) return r.refuse("no element to choose along axis " + std::to_string(axis));
  if (attr_as<bool>(c.node, "keepdims"))
    out[axis] = Dim(1);
  else
    out.erase(out.begin() + axis);
  return out;
}

Result<Dims> reshape(InferContext& c) {
  const Rule r(c);
  Dims out = r.dims("shape");
  const Dim total = c.dims.product(r.shape(0));
  const std::string text = r.print(r.shape(0)) + " does not reshape to " + r.print(out);
  int open = -1;
  Dim known(1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == Dim(-1)) {
      if (open >= 0) return r.refuse(text + ": more than one -1");
      open = static_cast<int>(i);
    } else {
      TENON_TRY(r.at_least(std::span(&out[i], 1), 0, "size"));
      known = c.dims.mul(known, out[i]);
    }
  }
  if (open < 0) {
    if (known.is_const() && total.is_const() && known != total)
      return r.refuse(text + ": " + r.print(total) + " elements against " + r.print(known));
    return out;
  }
  if (known == Dim(0)) return r.refuse(text + ": -1 beside a size of 0");
  if (known.is_const() && total.is_const() && total.value() % known.value() != 0)
    return r.refuse(text + ": " + r.print(total) + " elements are no multiple of " + r.print(known));
  auto quotient = c.dims.divide(total, known);
  out[open] = quotient ? *quotient : c.dims.floor_div(total, known);
  return out;
}

Result<Dims> transpose(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const std::vector<int64_t> perm, r.ints("perm"));
  Dims out;
  std::vector<bool> seen(r.rank());
  for (int64_t given : perm) {
    auto axis = normal_axis(given, r.rank());
    if (!axis || r.rank() == 0 || seen[*axis]) break;
    seen[*axis] = true;
    out.push_back(r.shape(0)[*axis]);
  }
  if (static_cast<int>(out.size()) != r.rank() || perm.size() != out.size())
    return r.refuse("perm " + r.print(r.dims("perm")) + " is no permutation of " + std::to_string(r.rank()) +
                    " axes");
  return out;
}

Result<Dims> expand(InferContext& c) {
  const Rule r(c);
  const Dims& out = r.dims("shape");
  TENON_TRY(r.at_least(out, 0, "shape"));
  const std::string text = r.print(r.shape(0)) + " does not expand to " + r.print(out);
  if (out.size() < r.shape(0).size()) return r.refuse(text);
  const size_t lead = out.size() - r.shape(0).size();
  for (size_t i = lead; i < out.size(); ++i) {
    const Dim from = r.shape(0)[i - lead];
    if (from == Dim(1)) continue;
    // A size that cannot equal the result's must be 1, if that is possible.
    const bool wide = !c.claim || from.is_const() || c.dims.equal(from, out[i]) != false;
    TENON_TRY(r.agree(from, wide ? out[i] : Dim(1), text));
  }
  return out;
}

Result<Dims> slice(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int axis, r.axis("axis"));
  if (r.rank() == 0) return r.refuse("a scalar has no axis to slice");
  TENON_ASSIGN(const int64_t step, r.integer("step"));
  const Dim start = attr_as<Dim>(c.node, "start"), end = attr_as<Dim>(c.node, "end"), size = r.shape(0)[axis];
  if (step < 1) return r.refuse("step must be at least 1, not " + std::to_string(step));
  const Dim steps[] = {step};
  TENON_TRY(r.amounts(steps, 1, "step"));
  TENON_TRY(r.bounds(start, end, size));
  Dims out = r.shape(0);
  out[axis] = c.dims.ceil_div(c.dims.sub(end, start), step);
  return out;
}

Result<Dims> windows(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const std::vector<int64_t> axes, r.ints("axes"));
  const Dims &sizes = r.dims("sizes"), &strides = r.dims("strides"), &dilations = r.dims("dilations");
  if (axes.size() != sizes.size() || axes.size() != strides.size() || axes.size() != dilations.size())
    return r.refuse("axes, sizes, strides and dilations differ in length");
  TENON_TRY(r.amounts(sizes, 1, "sizes"));
  TENON_TRY(r.amounts(strides, 1, "strides"));
  TENON_TRY(r.amounts(dilations, 1, "dilations"));
  if (!axes.empty()) {
    if (r.rank() == 0) return r.refuse("a scalar has no axis for a window");
    auto flags = axis_flags(axes, r.rank());
    if (!flags.ok()) return r.prefix(flags.status());
  }
  Dims out = r.shape(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& size = out[*normal_axis(axes[i], r.rank())];
    TENON_ASSIGN(size, r.positions(size, sizes[i], strides[i], dilations[i]));
  }
  out.insert(out.end(), sizes.begin(), sizes.end());
  return out;
}

Result<Dims> flip(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const std::vector<int64_t> axes, r.ints("axes"));
  auto flags = axis_flags(axes, r.rank());
  if (!flags.ok()) return r.prefix(flags.status());
  return r.shape(0);
}

Result<Dims> concat(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int axis, r.axis("axis"));
  if (r.rank() == 0) return r.refuse("scalars have no axis to concatenate along");
  Dims out = r.shape(0);
  for (int i = 1; i < r.operands(); ++i) {
    const std::string text = "operand 0 and operand " + std::to_string(i) + ", shapes " +
                             r.print(r.shape(0)) + " and " + r.print(r.shape(i)) + " off axis " +
                             std::to_string(axis);
    if (r.rank(i) != r.rank()) return r.refuse(text + ": ranks differ");
    for (int d = 0; d < r.rank(); ++d)
      if (d != axis) TENON_TRY(r.agree(out[d], r.shape(i)[d], text));
    out[axis] = c.dims.add(out[axis], r.shape(i)[axis]);
  }
  return out;
}

Result<Dims> pad(InferContext& c) {
  const Rule r(c);
  const Dims &low = r.dims("low"), &high = r.dims("high");
  if (static_cast<int>(low.size()) != r.rank() || static_cast<int>(high.size()) != r.rank())
    return r.refuse("low " + r.print(low) + " and high " + r.print(high) + " need one amount for each of " +
                    std::to_string(r.rank()) + " axes");
  Dims out = r.shape(0);
  for (int i = 0; i < r.rank(); ++i) out[i] = c.dims.add(c.dims.add(low[i], out[i]), high[i]);
  TENON_TRY(r.at_least(out, 0, "padded shape"));
  return out;
}

Result<Dims> gather(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int axis, r.axis("axis"));
  Dims out = r.shape(0);
  if (!out.empty()) out.erase(out.begin() + axis);
  out.insert(out.begin() + (r.rank() == 0 ? 0 : axis), r.shape(1).begin(), r.shape(1).end());
  TENON_TRY(r.has_element(axis));
  return out;
}

Result<Dims> take_along(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int axis, r.axis("axis"));
  const std::string text =
      "shapes " + r.print(r.shape(0)) + " and " + r.print(r.shape(1)) + " off axis " + std::to_string(axis);
  if (r.rank() != r.rank(1)) return r.refuse(text + ": ranks differ");
  for (int d = 0; d < r.rank(); ++d)
    if (d != axis && r.shape(0)[d] != Dim(1)) TENON_TRY(r.agree(r.shape(0)[d], r.shape(1)[d], text));
  TENON_TRY(r.has_element(axis));
  return r.shape(1);
}

Status has_put_mode(const Rule& r, const Node& node) {
  const std::string& mode = attr_as<std::string>(node, "mode");
  return find_put_mode(mode) ? Status() : r.refuse("mode is none of set, add, mul, max and min: " + mode);
}

Result<Dims> scatter(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int axis, r.axis("axis"));
  TENON_TRY(has_put_mode(r, c.node));
  if (r.rank(1) != r.rank() || r.rank(2) != r.rank()) return r.refuse("operands differ in rank");
  for (int d = 0; d < r.rank(); ++d) {
    TENON_TRY(r.agree(r.shape(1)[d], r.shape(2)[d],
                      "indices " + r.print(r.shape(1)) + " and updates " + r.print(r.shape(2))));
    const Dim have = r.shape(0)[d], want = r.shape(1)[d];
    if (d == axis || (have.is_const() && want.is_const() && want <= have)) continue;
    TENON_TRY(r.agree(have, want,
                      "shapes " + r.print(r.shape(0)) + " and " + r.print(r.shape(1)) + " off axis " +
                          std::to_string(axis)));
  }
  TENON_TRY(r.has_element(axis));
  return r.shape(0);
}

Result<Dims> index_put(InferContext& c) {
  const Rule r(c);
  TENON_TRY(has_put_mode(r, c.node));
  TENON_ASSIGN(const Dims expected, gather(c));
  const std::string text = "updates " + r.print(r.shape(2)) + " where " + r.print(expected) + " is needed";
  if (r.shape(2).size() != expected.size()) return r.refuse(text);
  for (size_t d = 0; d < expected.size(); ++d) TENON_TRY(r.agree(r.shape(2)[d], expected[d], text));
  return r.shape(0);
}

}  // namespace shapes
}  // namespace tenon
