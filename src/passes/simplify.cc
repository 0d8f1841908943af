// See passes.h. The rules, in the order in which they are tried. All but `sums` are exact, including NaN, infinities and
// signed zeros. So there is no rule for x + 0.0 (which is not x for x = -0) and none for x * 0 (which is not
// 0 for NaN).
//
//   views      reshape(reshape(x)) = reshape(x)          reshape(x, shape of x) = x
//              transpose(transpose(x, p), q) = transpose(x, p[q])      transpose(x, identity) = x
//              transpose that moves only axes of size 1 = reshape
//              expand(x, shape of x) = x                 slice(x, all of an axis) = x
//              concat(x) = x                             pad by nothing = x
//              slice(concat(.., x, ..), all of x) = x
//              reshape, expand, transpose of full = full
//   hoisting   reshape(f(x, y..)) = f(reshape(x), reshape(y)..) for elementwise f with one user, if every y has the
//              result's shape, has one element, or broadcasts over trailing axes that the reshape keeps
//              reshape(matmul(a[M,K], b[K,N]), [B.., N]) = matmul(reshape(a, [B.., K]), b)
//   batches    matmul(a[B..,M,K], expand(b[K,N], [B..,K,N])) = matmul(a, b)
//   padding    convolution(pad of zeros) = convolution with this padding, if less than a window of it is padding
//   heads      attention(q, repeat(k), repeat(v)) = attention(q, k, v), if each head is repeated the same number of times in a row
//   sums       x + index_put(0, i, u, mode="add") = index_put(x, i, u, mode="add") of at least 32 bits, likewise
//              scatter; the order of the sums differs
//   numbers    cast to the same dtype = x                cast of full = full
//              cast(cast(x, wider), t) = cast(x, t) if the inner cast is exact
//              x * 1 = x / 1 = x - 0 = x                 integer x + 0 = x
//              pow(x, 1) = x, pow(x, 2) = square(x), pow(x, 3) = x * x * x (as PyTorch computes it)
//              x / 2^k = x * 2^-k                        neg(neg(x)) = x      logical_not twice = x
//
// Hoisting moves reshapes towards the inputs and no rule moves one back, so the rounds end.
// Tested by tests/golden/passes/simplify_*.tn.
#include <cmath>

#include "src/ops/rows/names.h"
#include "src/passes/elementwise.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

constexpr int kMaxRounds = 12;

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : source_(graph), uses_(graph.use_counts()) {}

  Graph run() {
    return rewrite(source_, [&](Builder& b, Node&& node, ValueId old) {
      b_ = &b;
      old_ = &source_.node(old);
      single_use_ = !old_->inputs.empty() && uses_[old_->inputs[0]] == 1;
      using Rule = std::optional<ValueId> (Simplifier::*)(const Node&);
      for (Rule rule :
           {&Simplifier::views, &Simplifier::literals, &Simplifier::hoist, &Simplifier::batches,
            &Simplifier::padding, &Simplifier::shared_heads, &Simplifier::sums, &Simplifier::numbers})
        if (auto v = (this->*rule)(node)) {
          changed = true;
          return *v;
        }
      return b.add(std::move(node));
    });
  }
  bool changed = false;

 private:
  const Node& made(ValueId v) const { return b_->graph().node(v); }
  bool is(ValueId v, OpId id) const { return made(v).op == id; }
  const Dims& shape(ValueId v) const { return b_->shape(v); }
  // The type that the node will have.
  TensorType type(const Node& n) const {
    auto t = infer(b_->graph(), n);
    TENON_CHECK(t.ok(), t.status().message());
    return *t;
  }

  std::optional<ValueId> views(const Node& n) {
    if (n.inputs.empty()) return {};
    const ValueId x = n.inputs[0];
    if (n.op == ops::reshape) {
      const Dims to = type(n).shape;
      if (to == shape(x)) return x;
      if (is(x, ops::reshape)) return b_->reshape(made(x).inputs[0], to);
    } else if (n.op == ops::transpose) {
      std::vector<int64_t> perm = attr_ints(n, "perm");
      const int64_t rank = static_cast<int64_t>(perm.size());
      for (int64_t& p : perm) p = wrap_axis(p, rank);
      if (is(x, ops::transpose)) {
        std::vector<int64_t> inner = attr_ints(made(x), "perm");
        for (int64_t& p : perm) p = wrap_axis(inner[p], rank);
        return transposed(made(x).inputs[0], perm);
      }
      if (std::is_sorted(perm.begin(), perm.end())) return x;
      std::vector<int64_t> long_axes;
      for (int64_t p : perm)
        if (shape(x)[p] != Dim(1)) long_axes.push_back(p);
      if (std::is_sorted(long_axes.begin(), long_axes.end())) return b_->reshape(x, type(n).shape);
    } else if (n.op == ops::expand) {
      if (attr_as<Dims>(n, "shape") == shape(x)) return x;
    } else if (n.op == ops::slice) {
      const int64_t axis = wrap_axis(attr_int(n, "axis"), static_cast<int64_t>(shape(x).size()));
      if (attr_as<Dim>(n, "start") == Dim(0) && attr_as<Dim>(n, "step") == Dim(1) &&
          attr_as<Dim>(n, "end") == shape(x)[axis])
        return x;
      return part_of_concat(n, x, axis);
    } else if (n.op == ops::concat) {
      if (n.inputs.size() == 1) return x;
    } else if (n.op == ops::pad) {
      const Dims &low = attr_as<Dims>(n, "low"), &high = attr_as<Dims>(n, "high");
      auto zero = [](Dim d) { return d == Dim(0); };
      if (std::all_of(low.begin(), low.end(), zero) && std::all_of(high.begin(), high.end(), zero)) return x;
    }
    return {};
  }

  // The operand of the concatenation x that the slice n along `axis` takes whole.
  std::optional<ValueId> part_of_concat(const Node& n, ValueId x, int64_t axis) {
    if (!is(x, ops::concat) || attr_as<Dim>(n, "step") != Dim(1)) return {};
    if (wrap_axis(attr_int(made(x), "axis"), static_cast<int64_t>(shape(x).size())) != axis) return {};
    Dim begin = 0;
    for (const ValueId part : made(x).inputs) {
      const Dim end = b_->dims().add(begin, shape(part)[axis]);
      if (attr_as<Dim>(n, "start") == begin && attr_as<Dim>(n, "end") == end) return part;
      begin = end;
    }
    return {};
  }

  ValueId transposed(ValueId x, const std::vector<int64_t>& perm) {
    if (std::is_sorted(perm.begin(), perm.end())) return x;
    Dims p;
    for (int64_t a : perm) p.push_back(Dim(a));
    return (*b_)(ops::transpose, {x}, {{"perm", p}});
  }

  std::optional<ValueId> batches(const Node& n) {
    if ((n.op != ops::matmul && n.op != ops::int_matmul) || !is(n.inputs[1], ops::expand)) return {};
    const Dims &a = shape(n.inputs[0]), &wide = shape(n.inputs[1]);
    const ValueId b = made(n.inputs[1]).inputs[0];
    if (a.size() < 3 || a.size() < wide.size() || shape(b) != Dims(wide.end() - 2, wide.end())) return {};
    // Every batch axis of the result is one of a.
    for (size_t i = 0; i + 2 < wide.size(); ++i)
      if (wide[i] != a[a.size() - wide.size() + i] && wide[i] != Dim(1)) return {};
    Node product = n;
    product.inputs[1] = b;
    return b_->add(std::move(product));
  }

  std::optional<ValueId> padding(const Node& n) {
    if (n.op != ops::convolution || attr_as<bool>(n, "transposed") || !is(n.inputs[0], ops::pad)) return {};
    const Node& zeros = made(n.inputs[0]);
    const double value = attr_as<Scalar>(zeros, "value").as_double();
    if (value != 0 || std::signbit(value)) return {};
    const Dims &low = attr_as<Dims>(zeros, "low"), &high = attr_as<Dims>(zeros, "high");
    const size_t first = attr_as<std::string>(n, "layout") == "channels_last" ? 1 : 2;
    Dims at_low = attr_as<Dims>(n, "padding"), at_high = attr_as<Dims>(n, "padding_high");
    const Dims &dilations = attr_as<Dims>(n, "dilations"), &weights = shape(n.inputs[1]);
    for (size_t d = 0; d < low.size(); ++d) {
      if (d < first || d >= first + at_low.size()) {
        if (low[d] != Dim(0) || high[d] != Dim(0)) return {};
        continue;
      }
      const size_t i = d - first;
      const Dim reach = b_->dims().mul(dilations[i], b_->dims().sub(weights[i + 2], 1));
      for (auto [at, more] : {std::pair(&at_low[i], low[d]), std::pair(&at_high[i], high[d])}) {
        *at = b_->dims().add(*at, more);
        if (!more.is_const() || more.value() < 0 || !at->is_const() || !reach.is_const() ||
            at->value() > reach.value())
          return {};
      }
    }
    Node padded = n;
    padded.inputs[0] = zeros.inputs[0];
    set_attr(padded, "padding", at_low);
    set_attr(padded, "padding_high", at_high);
    return b_->add(std::move(padded));
  }

  // reshape(expand(reshape(x, [B,H,1,S,D]), [B,H,G,S,D]), [B,H*G,S,D]) of x [B,H,S,D]: x with each head G times; likewise for heads
  // on another axis. Returns the inner reshape and the shape of x.
  std::optional<std::pair<ValueId, Dims>> without_repeats(ValueId v, size_t heads) {
    if (!is(v, ops::reshape) || !is(made(v).inputs[0], ops::expand)) return {};
    const Node& expand = made(made(v).inputs[0]);
    const Dims &wide = expand.type.shape, &once = shape(expand.inputs[0]);
    if (wide.size() != 5 || once.size() != 5 || once[heads + 1] != Dim(1)) return {};
    Dims repeated = wide, kept = wide;
    repeated.erase(repeated.begin() + static_cast<int64_t>(heads));
    repeated[heads] = b_->dims().mul(wide[heads], wide[heads + 1]);
    kept[heads + 1] = Dim(1);
    if (kept != once || repeated != shape(v)) return {};
    kept.erase(kept.begin() + static_cast<int64_t>(heads) + 1);
    return std::pair(expand.inputs[0], kept);
  }
  std::optional<ValueId> shared_heads(const Node& n) {
    if (n.op != ops::attention) return {};
    const size_t heads = attr_as<std::string>(n, "layout") == "heads_last" ? 2 : 1;
    const auto k = without_repeats(n.inputs[1], heads), v = without_repeats(n.inputs[2], heads);
    if (!k || !v || k->second[heads] != v->second[heads]) return {};
    Node shared = n;
    shared.inputs[1] = b_->reshape(k->first, k->second);
    shared.inputs[2] = b_->reshape(v->first, v->second);
    return b_->add(std::move(shared));
  }

  std::optional<ValueId> literals(const Node& n) {
    if (n.inputs.size() != 1 || !is(n.inputs[0], ops::full)) return {};
    const Node& full = made(n.inputs[0]);
    const Scalar value = attr_as<Scalar>(full, "value");
    if (n.op == ops::reshape || n.op == ops::expand || n.op == ops::transpose)
      return (*b_)(ops::full, {}, {{"value", value}, {"shape", type(n).shape}, {"dtype", full.type.dtype}});
    if (n.op == ops::cast) {
      const DType to = attr_as<DType>(n, "dtype"), from = full.type.dtype;
      // Only if the literal is the same number in both dtypes: in range and not rounded.
      const double d = value.as_double();
      const bool small_integer = std::isfinite(d) && d == std::trunc(d) && std::abs(d) <= 100 &&
                                 !is_storage(to) && !is_storage(from);
      if (to == from || (small_integer && !is_bool(to) && !is_bool(from) && (d >= 0 || info(to).is_signed)) ||
          (from == DType::f32 && to == DType::f64 && static_cast<double>(static_cast<float>(d)) == d))
        return (*b_)(ops::full, {},
                     {{"value", is_float(to) ? Scalar::of(d) : Scalar::of(static_cast<int64_t>(d))},
                      {"shape", full.type.shape},
                      {"dtype", to}});
    }
    return {};
  }

  // The number of trailing axes that a reshape from `from` to `to` keeps.
  static size_t kept_tail(const Dims& from, const Dims& to) {
    size_t k = 0;
    while (k < from.size() && k < to.size() && from[from.size() - 1 - k] == to[to.size() - 1 - k]) ++k;
    return k;
  }

  std::optional<ValueId> hoist(const Node& n) {
    if (n.op != ops::reshape || !single_use_) return {};
    const Node inner = made(n.inputs[0]);
    const Dims to = type(n).shape, from = inner.type.shape;
    if (is_elementwise(op(inner.op)) && !op(inner.op).effect && inner.op != ops::bitcast) {
      const size_t tail = kept_tail(from, to);
      std::vector<ValueId> operands;
      bool any_full = false;
      for (ValueId v : inner.inputs) {
        const Dims& s = shape(v);
        if (s == from)
          any_full = true;
        else if (s.size() > tail && b_->dims().product(s) != Dim(1))
          return {};
      }
      if (!any_full) return {};
      for (ValueId v : inner.inputs) {
        if (shape(v) == from)
          operands.push_back(b_->reshape(v, to));
        else if (b_->dims().product(shape(v)) == Dim(1))
          operands.push_back(b_->reshape(v, {}));
        else
          operands.push_back(v);
      }
      Node hoisted;
      hoisted.op = inner.op;
      hoisted.inputs = std::move(operands);
      hoisted.attrs = inner.attrs;
      return b_->add(std::move(hoisted));
    }
    if (inner.op == ops::matmul && shape(inner.inputs[0]).size() == 2 && shape(inner.inputs[1]).size() == 2 &&
        to.size() > 2 && to.back() == from.back()) {
      Dims rows(to.begin(), to.end() - 1);
      if (b_->dims().product(rows) != from[0]) return {};
      rows.push_back(shape(inner.inputs[0])[1]);
      const ValueId a = b_->reshape(inner.inputs[0], rows), w = inner.inputs[1];
      return (*b_)(ops::matmul, {a, w}, {{"tf32", attr_as<bool>(inner, "tf32")}});
    }
    return {};
  }

  // The number that a literal holds in every element.
  std::optional<Scalar> literal(ValueId v) const {
    if (is(v, ops::full)) return attr_as<Scalar>(made(v), "value");
    if (made(v).op == ops::expand || made(v).op == ops::reshape) return literal(made(v).inputs[0]);
    return {};
  }

  static bool exact_widening(DType from, DType to) {
    if (from == to) return true;
    if (is_float(from))
      return to == DType::f64 || (to == DType::f32 && is_narrow(from)) ||
             (!is_storage(to) && is_storage(from));
    if (is_bool(from)) return !is_bool(to);
    if (is_float(to))
      return !is_storage(to) && size_of(from) * 8 <= (to == DType::f64 ? 32 : to == DType::f32 ? 16 : 8);
    return is_integer(to) && size_of(to) > size_of(from) && (info(to).is_signed || !info(from).is_signed);
  }

  std::optional<ValueId> sums(const Node& n) {
    if (n.op != ops::add || size_of(type(n).dtype) < 4)
      return {};  // many small updates of a large 16-bit number would be lost
    for (size_t i = 0; i < 2; ++i) {
      const Node& put = made(n.inputs[i]);
      const ValueId other = n.inputs[1 - i];
      if ((put.op != ops::index_put && put.op != ops::scatter) ||
          attr_as<std::string>(put, "mode") != "add" || b_->type(other) != put.type ||
          uses_[old_->inputs[i]] > 1 || literal(other))
        continue;
      const auto base = literal(put.inputs[0]);
      if (!base || base->as_double() != 0) continue;
      Node sum = n;
      sum.op = put.op;
      sum.inputs = {other, put.inputs[1], put.inputs[2]};
      sum.attrs = put.attrs;
      return b_->add(std::move(sum));
    }
    return {};
  }

  std::optional<ValueId> numbers(const Node& n) {
    if (n.inputs.empty()) return {};
    const ValueId x = n.inputs[0];
    if (n.op == ops::cast) {
      const DType to = attr_as<DType>(n, "dtype");
      if (b_->type(x).dtype == to) return x;
      if (is(x, ops::cast)) {
        const ValueId y = made(x).inputs[0];
        if (exact_widening(b_->type(y).dtype, b_->type(x).dtype)) return b_->cast(y, to);
      }
      return {};
    }
    if (n.op == ops::neg && is(x, ops::neg)) return made(x).inputs[0];
    if (n.op == ops::logical_not && is(x, ops::logical_not) && is_bool(b_->type(made(x).inputs[0]).dtype))
      return made(x).inputs[0];
    if (n.inputs.size() != 2) return {};
    const ValueId y = n.inputs[1];
    const DType dtype = b_->type(x).dtype;
    const TensorType result = type(n);
    auto same = [&](ValueId v) { return b_->type(v) == result; };
    auto number = [&](ValueId v) -> std::optional<double> {
      auto s = literal(v);
      if (!s) return {};
      return s->as_double();
    };
    const auto a = number(x), c = number(y);
    if (n.op == ops::mul && c == 1.0 && same(x)) return x;
    if (n.op == ops::mul && a == 1.0 && same(y)) return y;
    if (n.op == ops::div && c == 1.0 && same(x)) return x;
    if (n.op == ops::sub && c == 0.0 && !std::signbit(*c) && same(x)) return x;
    if (n.op == ops::add && is_integer(dtype) && c == 0.0 && same(x)) return x;
    if (n.op == ops::add && is_integer(dtype) && a == 0.0 && same(y)) return y;
    if (n.op == ops::pow && c && is_float(dtype) && same(x)) {
      if (*c == 1) return x;
      if (*c == 2) return (*b_)(ops::square, {x});
      if (*c == 3) {
        const ValueId squared = (*b_)(ops::mul, {x, x});
        return (*b_)(ops::mul, {squared, x});
      }
    }
    if (n.op == ops::div && c && is_float(dtype) && *c != 0 && std::isfinite(*c)) {
      int exponent = 0;
      // In this range 2^k and its reciprocal are normal numbers of every float dtype.
      if (std::abs(std::frexp(*c, &exponent)) == 0.5 && std::abs(exponent) <= 13)
        return (*b_)(ops::mul, {x, b_->scalar(1.0 / *c, dtype)});
    }
    return {};
  }

  const Graph& source_;
  std::vector<int> uses_;
  Builder* b_ = nullptr;
  const Node* old_ = nullptr;  // the node of source_ that is now rewritten
  bool single_use_ = false;
};

}  // namespace

Graph simplify(const Graph& graph) {
  Graph current = graph;
  for (int round = 0; round < kMaxRounds; ++round) {
    Simplifier simplifier(current);
    current = simplifier.run();
    if (!simplifier.changed) break;
  }
  return current;
}

}  // namespace tenon
