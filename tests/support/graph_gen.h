// GraphGen: random graphs of 1 to 24 nodes of all families of docs/ops.md, with constant and symbolic sizes, strided bindings,
// params and input data. The same seed gives the same graph for the same op table. Nodes that the builder refuses are left out,
// so every graph is valid at its sizes. Used by tests/fuzz/fuzz_test.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "src/ir/builder.h"
#include "src/ops/eval/eval.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/put_mode.h"
#include "src/ops/rules/rules.h"

namespace tenon {

struct RandomGraph {
  Graph graph;
  std::vector<int64_t> symbols;  // values by symbol number
  std::vector<HostTensor> inputs;
  std::vector<bool> frozen;  // the params that Program::make gets
};

class GraphGen {
 public:
  // all: every family of nodes. indices: nodes that decide where elements are read (views, assemblies, gathers, scans), with sums
  // and maps between them, on integers and on floats that are only moved, so that results are exact. sequences: all, behind a
  // recurrent layer.
  enum class Mix { all, indices, sequences };
  explicit GraphGen(uint64_t seed, Mix mix = Mix::all) : rng_(seed), b_(out_.graph), mix_(mix) {}

  RandomGraph make() {
    Graph& g = out_.graph;
    g.name = "fuzz";
    for (const char* name : {"N", "M", "K"}) {
      symbols_.push_back(b_.dims().symbol(name));
      out_.symbols.push_back(chance(4) ? 0 : of<int64_t>({1, 2, 3, 4, 5, 7, 8, 17, 33}));
    }
    // Large numbers overflow in the sums of a recurrent step, but not in those of the evaluator.
    special_ = chance(15) && mix_ != Mix::sequences;
    coarse_ = chance(30);
    const int inputs = 1 + below(3);
    for (int i = 0; i < inputs; ++i) add_input(random_dtype(), random_shape());
    if (mix_ == Mix::sequences) recurrent();
    // Most graphs are small, so that many run; some are long.
    const int nodes = chance(60) ? 1 + below(6) : 1 + below(24);
    for (int tries = 0; made_ < nodes && tries < 8 * nodes; ++tries) grow();
    choose_outputs();
    bind_symbols();
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const bool param = !g.inputs[i].symbol && chance(12);
      g.inputs[i].param = param;
      out_.frozen.push_back(param && chance(60));
    }
    return std::move(out_);
  }

 private:
  using Values = std::vector<ValueId>;

  // ---- chance ----
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T of(std::vector<T> list) {
    return list[below(static_cast<int>(list.size()))];
  }
  double uniform() { return static_cast<double>(rng_() >> 11) * 0x1p-53; }
  double normal() {  // approximately
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  // ---- sizes ----
  int64_t size(Dim d) const { return out_.graph.dims->eval(d, out_.symbols).value_or(-1); }
  int64_t count(const Dims& shape) const {
    int64_t n = 1;
    for (Dim d : shape) n *= size(d);
    return n;
  }
  const Dims& shape(ValueId v) const { return out_.graph.type(v).shape; }
  DType dtype(ValueId v) const { return out_.graph.type(v).dtype; }
  int rank(ValueId v) const { return out_.graph.type(v).rank(); }
  Dim random_dim() {
    const int p = below(100);
    if (p < 30) return of(symbols_);
    if (p < 42) return Dim(1);
    if (p < 44) return Dim(0);
    if (p < 50) return b_.dims().mul(of(symbols_), Dim(2));
    return Dim(of<int64_t>({2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 33, 64}));
  }
  Dims random_shape(int least = 0) {
    const int p = below(100);
    const int rank = std::max(least, p < 6 ? 0 : p < 25 ? 1 : p < 60 ? 2 : p < 82 ? 3 : p < 94 ? 4 : 5);
    Dims s;
    for (int i = 0; i < rank; ++i) s.push_back(random_dim());
    for (int i = 0; count(s) > 1200; i = (i + 1) % rank) s[i] = Dim(2);
    return s;
  }
  DType random_dtype() {
    const int p = below(100);
    if (mix_ == Mix::indices) return p < 60 ? DType::i64 : p < 80 ? DType::i32 : DType::u8;
    if (p < 58) return DType::f32;
    if (p < 70) return DType::bf16;
    if (p < 80) return DType::i64;
    if (p < 86) return DType::b8;
    return of<DType>({DType::f64, DType::f16, DType::i32, DType::i16, DType::i8, DType::u8});
  }

  // ---- values ----
  double special() {
    return of<double>({NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-42, -3e-39, 1e-20, 3e38, -1e30, 65504.0, 1.0});
  }
  void fill(HostTensor& t) {
    const double scale = of<double>({0.5, 1, 1, 3});
    for (int64_t i = 0; i < t.count(); ++i) {
      if (is_float(t.dtype)) {
        double x = normal() * scale;
        if (coarse_) x = std::round(x * 4) / 4;
        if (special_ && chance(8)) x = special();
        t.set(i, {x, 0});
      } else {
        t.set(i, {0, is_bool(t.dtype) ? below(2) : t.dtype == DType::u8 ? below(9) : below(13) - 4});
      }
    }
  }
  ValueId add_input(DType type, Dims s) {
    auto v = b_.try_input({}, {type, s});
    TENON_CHECK(v.ok(), v.status().message());
    std::vector<int64_t> sizes;
    for (Dim d : s) sizes.push_back(size(d));
    HostTensor t(type, sizes);
    fill(t);
    out_.inputs.push_back(std::move(t));
    out_.graph.inputs.back().strides = random_strides(s, true);
    values_.push_back(*v);
    return *v;
  }
  std::optional<Dims> random_strides(const Dims& s, bool reading) {
    if (s.empty() || !chance(22)) return std::nullopt;
    std::vector<int> order(s.size());
    std::iota(order.begin(), order.end(), 0);
    if (chance(70)) std::shuffle(order.begin(), order.end(), rng_);
    Dims strides(s.size());
    Dim step = Dim(chance(20) ? 2 : 1);
    for (size_t k = s.size(); k-- > 0;) {
      strides[order[k]] = step;
      step = b_.dims().mul(step, s[order[k]]);
      if (chance(20)) step = b_.dims().add(step, Dim(3));
    }
    if (reading && chance(15)) strides[below(static_cast<int>(s.size()))] = Dim(0);
    return strides;
  }
  // An input of valid indices; others are tested elsewhere. wrap: includes negative indices.
  ValueId index_input(Dims s, int64_t limit, bool wrap = true) {
    const ValueId v = add_input(chance(70) ? DType::i64 : DType::i32, std::move(s));
    HostTensor& t = out_.inputs.back();
    const int range = static_cast<int>(std::max<int64_t>(1, limit));
    for (int64_t i = 0; i < t.count(); ++i) t.set(i, {0, wrap ? below(2 * range) - range : below(range)});
    return v;
  }
  ValueId pick() {  // prefers recent values, so that chains form
    const int n = static_cast<int>(values_.size());
    return chance(65) ? values_[n - 1 - below(std::min(n, 3))] : values_[below(n)];
  }
  std::optional<ValueId> add(OpId op, Values operands, std::vector<NamedAttr> attrs = {}) {
    Graph& g = out_.graph;
    const size_t before = g.nodes.size();
    auto v = b_.try_add(op, std::move(operands), std::move(attrs));
    if (!v.ok()) return std::nullopt;
    const bool fits = count(g.type(*v).shape) <= 4096 && at_sizes(g, out_.symbols).ok();
    if (!fits) {
      g.nodes.resize(before);
      return std::nullopt;
    }
    ++made_;
    values_.push_back(*v);
    return *v;
  }
  ValueId cast(ValueId v, DType to) {
    if (dtype(v) == to) return v;
    return add(ops::cast, {v}, {{"dtype", to}}).value_or(v);
  }
  ValueId pick_float() {
    const ValueId v = pick();
    return is_float(dtype(v)) ? v : cast(v, chance(80) ? DType::f32 : DType::bf16);
  }
  // A value that broadcasts with `s`: an existing value, a new input with some axes of the shape, or a literal.
  ValueId partner(const Dims& s, DType type) {
    for (int i = 0; i < 4; ++i) {
      const ValueId v = pick();
      if (dtype(v) == type && broadcasts(shape(v), s)) return v;
    }
    if (chance(25)) {
      const double x = coarse_ ? std::round(normal() * 4) / 4 : normal();
      const Scalar value = is_float(type) ? Scalar::of(x) : Scalar::of(int64_t{below(4)});
      if (auto v = add(ops::full, {}, {{"value", value}, {"shape", Dims{}}, {"dtype", type}})) return *v;
    }
    Dims part(s.begin() + (chance(40) ? below(static_cast<int>(s.size()) + 1) : 0), s.end());
    for (Dim& d : part)
      if (chance(25)) d = Dim(1);
    return add_input(type, part);
  }
  static bool broadcasts(const Dims& a, const Dims& s) {
    if (a.size() > s.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != Dim(1) && a[i] != s[s.size() - a.size() + i]) return false;
    return true;
  }

  // ---- one more node ----
  void grow() {
    if (mix_ == Mix::indices) return grow_indices();
    const int p = below(100);
    if (p < 30)
      map();
    else if (p < 36)
      conversion();
    else if (p < 56)
      view();
    else if (p < 62)
      assemble();
    else if (p < 67)
      index();
    else if (p < 81)
      reduce();
    else if (p < 83)
      add_axis(of<OpId>({ops::cumsum, ops::cumsum, ops::cumprod, ops::cummax, ops::cummin}));
    else if (p < 86)
      scatter();
    else if (p < 94)
      composite();
    else if (p < 98)
      contract();
    else
      source();
  }

  void grow_indices() {
    const int p = below(100);
    if (p < 50)
      view();
    else if (p < 65)
      assemble();
    else if (p < 72)
      index();
    else if (p < 80)
      scan();
    else if (p < 90)
      meet();
    else if (p < 97)
      fold();
    else
      scatter();
  }
  // A scan, often combined with a slice of itself, or flipped.
  void scan() {
    const ValueId v = pick();
    const int r = rank(v);
    if (r == 0) return;
    const int axis = below(r);
    auto sum = add(ops::cumsum, {v}, {{"axis", axis_name(axis, r)}});
    if (!sum) return;
    if (chance(40)) {
      if (auto end = slice(*sum, axis)) add(ops::sub, {*end, *sum});
    } else if (chance(40)) {
      add(ops::flip, {*sum}, {{"axes", Dims{axis_name(axis, r)}}});
    }
  }
  // Combines a value with a view of it or with another value of its shape, so that a loop has several access patterns.
  void meet() {
    const ValueId v = pick();
    ValueId other = partner(shape(v), dtype(v));
    if (chance(50)) {
      const ValueId turned = view_of(v).value_or(v);
      if (shape(turned) == shape(v)) other = turned;
    }
    add(of<OpId>({ops::add, ops::sub, ops::maximum}), {v, other});
  }
  void fold() {
    const ValueId v = pick();
    add(of<OpId>({ops::sum, ops::max}), {v}, {{"axes", some_axes(rank(v))}, {"keepdims", chance(50)}});
  }

  void map() {
    OpId id;
    do id = static_cast<OpId>(below(ops::built_in_count));
    while (op(id).kind != Kind::map || id == ops::cast || id == ops::bitcast);
    if (chance(30))
      id = of<OpId>({ops::add, ops::sub, ops::mul, ops::maximum, ops::where, ops::lt, ops::div});
    const Op& row = op(id);
    Values in{pick()};
    if (row.eval && !row.eval_int && !is_float(dtype(in[0]))) in[0] = cast(in[0], DType::f32);
    if (!row.eval && is_float(dtype(in[0]))) in[0] = cast(in[0], chance(70) ? DType::i64 : DType::i32);
    if (is_bool(dtype(in[0])) && row.type == types::number)
      in[0] = cast(in[0], chance(70) ? DType::i64 : DType::f32);
    // Bounds operands to the domain; otherwise most results would be NaN.
    if (row.arity == 1 && is_float(dtype(in[0])) && (row.low > -8 || row.high < 8) && chance(85)) {
      auto bound = [&](double x) { return b_.scalar(x, dtype(in[0])); };
      const double low = std::max(row.low, 1e-3 + std::min(row.low, 0.0) * 2);
      if (auto v =
              add(ops::clamp, {in[0], bound(std::max(row.low, std::min(low, row.high))), bound(row.high)}))
        in[0] = *v;
    }
    for (int i = 1; i < row.arity; ++i) in.push_back(partner(shape(in[0]), dtype(in[0])));
    if (id == ops::where) {
      in.resize(1);
      in[0] = cast(pick(), DType::b8);
      const DType type = random_dtype();
      in.push_back(partner(shape(in[0]), type));
      in.push_back(partner(shape(in[0]), type));
    } else if (in.size() == 2 && chance(30)) {
      std::swap(in[0], in[1]);
    }
    // Avoids faults: divisors become odd, and indices stay below 8 for sizes of at least 8.
    if (!row.fault.what.empty() && !is_float(dtype(in.back()))) {
      auto with = [&](OpId bits, ValueId v, double number) {
        return add(bits, {v, b_.scalar(number, dtype(v))}).value_or(v);
      };
      if (id == ops::index_in)
        for (ValueId& v : in) v = with(ops::bit_and, v = cast(v, DType::i64), 7);
      in.back() = with(ops::bit_or, in.back(), id == ops::index_in ? 8 : 1);
    }
    add(id, in);
  }
  void conversion() {
    const ValueId v = pick();
    if (chance(85))
      add(ops::cast, {v}, {{"dtype", random_dtype()}});
    else
      add(ops::bitcast, {v}, {{"dtype", random_dtype()}});
  }

  Dim axis_name(int axis, int rank) { return Dim(chance(40) ? axis - rank : axis); }
  void view() { view_of(pick()); }
  std::optional<ValueId> view_of(ValueId v) {
    const Dims& s = shape(v);
    const int r = rank(v);
    switch (below(7)) {
      case 0:
      case 1: return reshape(v);
      case 2: {
        std::vector<int64_t> perm(r);
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), rng_);
        return add(ops::transpose, {v}, {{"perm", Dims(perm.begin(), perm.end())}});
      }
      case 3: {
        Dims to = s;
        for (Dim& d : to)
          if (d == Dim(1) && chance(70)) d = random_dim();
        if (r < 5 && chance(40)) to.insert(to.begin(), random_dim());
        return add(ops::expand, {v}, {{"shape", to}});
      }
      case 4: return r ? slice(v, below(r)) : std::nullopt;
      case 5: {
        Dims axes;
        for (int a = 0; a < r; ++a)
          if (chance(50)) axes.push_back(axis_name(a, r));
        return add(ops::flip, {v}, {{"axes", axes}});
      }
      default: {
        Dims axes, sizes, strides, dilations;
        for (int a = 0; a < r && r + static_cast<int>(axes.size()) < 6; ++a)
          if (chance(40)) {
            axes.push_back(axis_name(a, r));
            sizes.push_back(Dim(1 + below(3)));
            strides.push_back(Dim(1 + below(3)));
            dilations.push_back(Dim(1 + below(2)));
          }
        return add(ops::windows, {v},
                   {{"axes", axes}, {"sizes", sizes}, {"strides", strides}, {"dilations", dilations}});
      }
    }
  }
  std::optional<ValueId> reshape(ValueId v) {
    Dims s = shape(v);
    const int r = rank(v);
    const int p = below(100);
    if (p < 20) {
      s = {Dim(-1)};
    } else if (p < 50 && r >= 2) {  // merge two adjacent axes
      const int a = below(r - 1);
      s[a] = b_.dims().mul(s[a], s[a + 1]);
      s.erase(s.begin() + a + 1);
    } else if (p < 80 && r >= 1 && r < 6) {  // split an axis
      const int a = below(r);
      const Dim part(of<int64_t>({2, 3, 4}));
      auto rest = b_.dims().divide(s[a], part);
      if (!rest) return std::nullopt;
      s[a] = *rest;
      s.insert(s.begin() + a + below(2), part);
    } else if (p < 90 && r < 6) {
      s.insert(s.begin() + below(r + 1), Dim(1));
    } else {
      std::erase(s, Dim(1));
    }
    return add(ops::reshape, {v}, {{"shape", s}});
  }
  std::optional<ValueId> slice(ValueId v, int axis) {
    const Dim d = shape(v)[axis];
    Dim start(0), end = d;
    if (d.is_const()) {
      const int n = static_cast<int>(d.value());
      start = Dim(below(n + 1));
      end = Dim(start.value() + below(n - static_cast<int>(start.value()) + 1));
    } else if (size(d) > 1) {
      if (chance(50)) start = Dim(1);
      if (chance(40)) end = b_.dims().sub(d, Dim(1));
    }
    return add(
        ops::slice, {v},
        {{"axis", axis_name(axis, rank(v))}, {"start", start}, {"end", end}, {"step", Dim(1 + below(3))}});
  }
  void assemble() {
    const ValueId v = pick();
    const int r = rank(v);
    if (r == 0) return;
    if (chance(60)) {
      const int axis = below(r);
      Values parts{v};
      for (int more = below(3); more > 0; --more) {
        ValueId other = pick();
        if (dtype(other) != dtype(v) || shape(other) != shape(v)) other = v;
        if (chance(40)) other = slice(other, axis).value_or(other);
        if (chance(30)) {
          Dims s = shape(v);
          s[axis] = random_dim();
          if (count(s) <= 1200) other = add_input(dtype(v), s);
        }
        if (chance(30)) other = view_of(other).value_or(other);
        parts.push_back(other);
      }
      std::shuffle(parts.begin(), parts.end(), rng_);
      add(ops::concat, parts, {{"axis", axis_name(axis, r)}});
    } else {
      Dims low, high;
      for (int a = 0; a < r; ++a) {
        low.push_back(Dim(chance(50) ? 0 : below(5) - 1));
        high.push_back(Dim(chance(50) ? 0 : below(5) - 1));
      }
      const Scalar value = chance(50) ? Scalar::of(int64_t{below(3)}) : Scalar::of(-0.5);
      add(ops::pad, {v}, {{"low", low}, {"high", high}, {"value", value}});
    }
  }
  void index() {
    const ValueId v = pick();
    const int r = rank(v);
    if (r == 0) {
      add(ops::gather, {v, index_input(random_shape(), 1)}, {{"axis", Dim(0)}});
      return;
    }
    const int axis = below(r);
    const int64_t limit = size(shape(v)[axis]);
    if (chance(50)) {
      Dims s;
      for (int i = below(3); i > 0; --i) s.push_back(random_dim());
      if (count(s) > 200) s = {Dim(5)};
      const bool wrap = chance(50);
      add(ops::gather, {v, index_input(s, limit, wrap)}, {{"axis", axis_name(axis, r)}, {"wrap", wrap}});
    } else {
      Dims s = shape(v);
      s[axis] = random_dim();
      if (count(s) > 1500) s[axis] = Dim(2);
      const bool wrap = chance(50);
      add(ops::take_along, {v, index_input(s, limit, wrap)}, {{"axis", axis_name(axis, r)}, {"wrap", wrap}});
    }
  }
  void scatter() {
    const ValueId v = pick();
    const int r = rank(v);
    if (r == 0) {
      const Dims s = chance(50) ? Dims{} : Dims{Dim(3)};
      add(ops::index_put, {v, index_input(s, 1), partner_exact(s, dtype(v))},
          {{"axis", Dim(0)}, {"mode", std::string("set")}});
      return;
    }
    const int axis = below(r);
    const int64_t limit = size(shape(v)[axis]);
    const bool put = chance(50), wrap = chance(50);
    const NamedAttr mode{"mode", std::string(kPutModes[below(static_cast<int>(std::size(kPutModes)))].name)};
    Dims s = shape(v), index{Dim(1 + below(6))};
    s[axis] = index[0];
    if (put)
      add(ops::index_put, {v, index_input(index, limit, wrap), partner_exact(s, dtype(v))},
          {{"axis", axis_name(axis, r)}, mode, {"wrap", wrap}});
    else
      add(ops::scatter, {v, index_input(s, limit, wrap), partner_exact(s, dtype(v))},
          {{"axis", axis_name(axis, r)}, mode, {"wrap", wrap}});
  }
  ValueId partner_exact(const Dims& s, DType type) {
    for (ValueId v : values_)
      if (dtype(v) == type && shape(v) == s && chance(60)) return v;
    return add_input(type, s);
  }

  Dims some_axes(int r) {
    Dims axes;
    for (int a = 0; a < r; ++a)
      if (chance(45)) axes.push_back(axis_name(a, r));
    if (axes.empty() && r > 0 && chance(80)) axes.push_back(axis_name(below(r), r));
    return axes;
  }
  void reduce() {
    const OpId id = of<OpId>({ops::sum, ops::sum, ops::sum, ops::max, ops::max, ops::min, ops::prod, ops::any,
                              ops::all, ops::mean, ops::var, ops::logsumexp, ops::argmax, ops::argmin});
    ValueId v = pick();
    if (op(id).type == types::floating) v = pick_float();
    if (is_bool(dtype(v)) && op(id).type == types::number) v = cast(v, DType::i64);
    if (id == ops::argmax || id == ops::argmin) return add_axis(id);
    add(id, {v}, {{"axes", some_axes(rank(v))}, {"keepdims", chance(50)}});
    if (chance(40)) {  // combine the result with the operand of the fold
      const ValueId total = values_.back();
      if (dtype(total) == dtype(v)) add(of<OpId>({ops::sub, ops::maximum, ops::add}), {v, total});
    }
  }
  void add_axis(OpId id) {
    ValueId v = op(id).type == types::floating ? pick_float() : pick();
    if (op(id).type == types::number && is_bool(dtype(v))) v = cast(v, DType::i64);
    const int r = rank(v);
    add(id, {v}, {{"axis", axis_name(r ? below(r) : 0, std::max(r, 1))}});
  }

  void composite() {
    const ValueId v = pick_float();
    const int r = rank(v);
    const DType t = dtype(v), param = chance(50) ? t : compute_type(t);
    const NamedAttr eps{"eps", 1e-5};
    switch (below(10)) {
      case 0:
      case 1:
      case 2: {
        const OpId id = of<OpId>({ops::relu, ops::leaky_relu, ops::elu, ops::gelu, ops::silu, ops::mish,
                                  ops::softplus, ops::hardswish, ops::hardsigmoid, ops::hardtanh});
        std::vector<NamedAttr> attrs;
        if (id == ops::gelu && chance(50)) attrs.push_back({"approximate", std::string("tanh")});
        add(id, {v}, attrs);
        break;
      }
      case 3:
      case 4: add_axis(ops::softmax); break;
      case 5: add_axis(ops::log_softmax); break;
      case 6: {
        if (r == 0) return;
        const int n = 1 + below(r);
        Dims s(shape(v).end() - n, shape(v).end());
        Values in{v};
        if (chance(80)) in.push_back(add_input(param, s));
        const bool layer = chance(60);
        if (layer && in.size() == 2 && chance(70)) in.push_back(add_input(param, s));
        add(layer ? ops::layer_norm : ops::rms_norm, in, {{"axes_count", Dim(n)}, eps});
        break;
      }
      case 7: {
        if (r < 2) return;
        const Dim c = shape(v)[1];
        Values in{v};
        if (chance(40)) {
          in.push_back(add_input(param, {c}));
          in.push_back(b_.scalar(1, param));
          const auto positive = add(ops::exp, {add_input(param, {c})});
          in[2] = positive.value_or(in[1]);
          if (chance(70)) in.push_back(add_input(param, {c})), in.push_back(add_input(param, {c}));
          add(ops::batch_norm, in, {eps});
        } else if (chance(50)) {
          if (chance(70)) in.push_back(add_input(param, {c})), in.push_back(add_input(param, {c}));
          add(ops::group_norm, in, {{"groups", Dim(of<int64_t>({1, 2, 4}))}, eps});
        } else {
          add(ops::instance_norm, in, {eps});
        }
        break;
      }
      case 8: {
        if (r == 0 || count(shape(v)) > 600) return;
        const Dim n(1 + below(6));
        Values in{v, add_input(t, {n, shape(v).back()})};
        if (chance(60)) in.push_back(add_input(t, {n}));
        add(ops::linear, in);
        break;
      }
      default: {
        const Dim batch = of(symbols_), length(1 + below(7)), keys(1 + below(9)),
                  head(of<int64_t>({2, 4, 8}));
        const int shared = 1 + below(2);
        Values in{add_input(t, {batch, Dim(2), length, head}),
                  add_input(t, {batch, Dim(2 / shared), keys, head}),
                  add_input(t, {batch, Dim(2 / shared), keys, Dim(4)})};
        if (chance(40)) in.push_back(add_input(t, {length, keys}));
        const bool causal = chance(50);
        if (causal) {  // whether a hidden NaN or infinity shows is not defined
          const ValueId finite = b_(ops::isfinite, {in[2]});
          in[2] = b_(ops::where, {finite, in[2], b_.scalar(0, t)});
        }
        if (size(batch) > 5) return;
        std::vector<NamedAttr> attrs = {{"causal", causal}, {"scale", 0.5}};
        if (chance(30)) {
          attrs.push_back({"dropout", 0.25});
          in.push_back(add_input(DType::b8, {batch, Dim(2), length, keys}));
        }
        if (chance(60)) {
          add(ops::attention, in, attrs);
          return;
        }
        for (size_t i = 0; i < 3; ++i)
          in[i] = b_(ops::transpose, {in[i]}, {{"perm", Dims{Dim(0), Dim(2), Dim(1), Dim(3)}}});
        in.insert(in.begin() + 3, add_input(t, {batch, length, Dim(2), Dim(4)}));
        add(ops::attention_gradient, in, attrs);
      }
    }
  }
  void contract() {
    const ValueId v = pick_float();
    const int r = rank(v);
    const DType t = dtype(v);
    if (chance(45)) {
      if (r == 0 || count(shape(v)) > 500) return;
      const Dim inner = shape(v).back();
      Dims s{inner};
      if (chance(80)) s.push_back(Dim(1 + below(7)));
      if (s.size() == 2 && r > 2 && chance(50)) s.insert(s.begin(), shape(v).begin(), shape(v).end() - 2);
      add(ops::matmul, {v, add_input(t, s)});
      return;
    }
    // Makes a new dense image, so that the sizes fit.
    const int axes = 1 + below(2);
    const bool last = chance(30);
    const int64_t channels = of<int64_t>({1, 2, 4});
    Dims space, kernel, strides, low, high, dilations;
    for (int i = 0; i < axes; ++i) {
      space.push_back(chance(30) ? b_.dims().add(of(symbols_), Dim(3)) : Dim(4 + below(6)));
      kernel.push_back(Dim(1 + below(3)));
      strides.push_back(Dim(1 + below(2)));
      low.push_back(Dim(below(2)));
      high.push_back(Dim(below(2)));
      dilations.push_back(Dim(chance(25) ? 2 : 1));
    }
    Dims x{Dim(1 + below(2))};
    if (!last) x.push_back(Dim(channels));
    x.insert(x.end(), space.begin(), space.end());
    if (last) x.push_back(Dim(channels));
    if (count(x) > 900) return;
    ValueId image = add_input(t, x);
    if (chance(40)) image = add(ops::relu, {image}).value_or(image);
    const NamedAttr layout{"layout", std::string(last ? "channels_last" : "channels_first")};
    if (chance(55)) {
      const int64_t groups = chance(30) ? channels : 1, out = groups * (1 + below(3));
      const bool transposed = chance(20);
      Dims w{Dim(transposed ? channels : out), Dim(transposed ? out / groups : channels / groups)};
      w.insert(w.end(), kernel.begin(), kernel.end());
      Values in{image, add_input(t, w)};
      if (chance(50)) in.push_back(add_input(t, {Dim(out)}));
      add(ops::convolution, in,
          {{"strides", strides},
           {"padding", low},
           {"padding_high", high},
           {"dilations", dilations},
           {"groups", Dim(groups)},
           {"transposed", transposed},
           layout});
    } else if (chance(40)) {
      add(ops::max_pool, {image},
          {{"kernel", kernel}, {"strides", strides}, {"padding", low}, {"padding_high", high}, layout});
    } else if (chance(60)) {
      add(ops::avg_pool, {image},
          {{"kernel", kernel},
           {"strides", strides},
           {"padding", low},
           {"padding_high", high},
           {"count_include_pad", chance(50)},
           layout});
    } else {
      Dims output;
      for (int i = 0; i < axes; ++i) output.push_back(Dim(1 + below(3)));
      add(ops::adaptive_avg_pool, {image}, {{"output", output}, layout});
    }
  }
  // A layer over some steps, or its gradient; half of the time its inputs are a product, as a framework computes them.
  void recurrent() {
    const std::string mode = of<std::string>({"lstm", "gru", "tanh", "relu"});
    const bool lstm = mode == "lstm", projects = lstm && chance(25);
    const Dim units(1 + below(chance(30) ? 40 : 9)), width = projects ? Dim(1 + below(5)) : units,
                                                     rows = b_.dims().mul(units, Dim(lstm            ? 4
                                                                                     : mode == "gru" ? 3
                                                                                                     : 1)),
                                                     steps = chance(50) ? of(symbols_) : Dim(1 + below(4)),
                                                     batch = chance(50) ? of(symbols_) : Dim(1 + below(4));
    const auto input = [&](Dims s) { return add_input(DType::f32, std::move(s)); };
    ValueId x;
    if (chance(50)) {
      x = input({steps, batch, rows});
    } else {
      const bool swapped = chance(50);
      const Dim inner(1 + below(20));
      Values in{input({swapped ? batch : steps, swapped ? steps : batch, inner}), input({rows, inner})};
      if (chance(70)) in.push_back(input({rows}));
      const auto product = add(ops::linear, in);
      if (!product) return;
      x = swapped
              ? add(ops::transpose, {*product}, {{"perm", Dims{Dim(1), Dim(0), Dim(2)}}}).value_or(*product)
              : *product;
    }
    const ValueId h = input({batch, width});
    const ValueId w = input({rows, width});
    // Weights whose steps do not amplify the errors of earlier ones.
    HostTensor& weight = out_.inputs.back();
    const double scale = 0.15 / std::sqrt(static_cast<double>(width.value()));
    for (int64_t i = 0; i < weight.count(); ++i) weight.set_number(i, weight.number(i) * scale);
    if (!projects && chance(40)) {
      Values in{input({steps, batch, units}), input({steps, batch, units}), h, w};
      if (lstm || mode == "gru") {
        in.push_back(x);
        in.push_back(input({steps, batch, rows}));
      }
      if (lstm) in.push_back(input({batch, units}));
      if (lstm && chance(70)) in.push_back(input({batch, units}));
      add(ops::recurrent_gradient, in, {{"mode", mode}, {"reverse", chance(50)}});
      return;
    }
    Values in{x, h, w};
    in.push_back(input({rows}));
    if (lstm && (projects || chance(70))) in.push_back(input({batch, units}));
    if (projects) in.push_back(input({width, units}));
    add(ops::recurrent, in, {{"mode", mode}, {"reverse", chance(50)}, {"cell", lstm && chance(30)}});
  }
  void source() {
    if (chance(20)) {
      add(ops::random_uniform, {add_input(DType::i64, {})}, {{"shape", random_shape()}});
      return;
    }
    const DType t = random_dtype();
    if (chance(40)) {
      Dims s = random_shape(1);
      const Scalar start = Scalar::of(int64_t{below(4)}),
                   step = chance(70) ? Scalar::of(int64_t{1 + below(2)}) : Scalar::of(0.5);
      add(ops::iota, {},
          {{"shape", s},
           {"dtype", t},
           {"axis", axis_name(below(static_cast<int>(s.size())), static_cast<int>(s.size()))},
           {"start", start},
           {"step", is_float(t) ? step : Scalar::of(int64_t{2})}});
    } else if (chance(50)) {
      add(ops::full, {}, {{"value", Scalar::of(int64_t{below(3)})}, {"shape", random_shape()}, {"dtype", t}});
    } else {
      add(ops::dim, {}, {{"value", of(symbols_)}, {"dtype", is_bool(t) ? DType::i64 : t}});
    }
  }

  // ---- outputs and bindings ----
  void choose_outputs() {
    Graph& g = out_.graph;
    auto give = [&](ValueId v) { g.outputs.push_back({v, random_strides(shape(v), false)}); };
    give(values_.back());
    for (int more = chance(50) ? below(4) : 0; more > 0; --more)
      give(values_[below(static_cast<int>(values_.size()))]);
    if (chance(5)) give(g.outputs[0].value);
  }
  // A symbol that is not the size of an axis of some input becomes a scalar argument.
  void bind_symbols() {
    Graph& g = out_.graph;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      bool given = false;
      for (const InputBinding& input : g.inputs)
        for (Dim d : g.type(input.value).shape) given = given || d == symbols_[i];
      if (given) continue;
      add_input(DType::i64, {});
      g.inputs.back().symbol = symbols_[i];
      g.inputs.back().strides.reset();
      out_.inputs.back().set(0, {0, out_.symbols[i]});
    }
  }

  std::mt19937_64 rng_;
  RandomGraph out_;
  Builder b_;
  Mix mix_;
  std::vector<Dim> symbols_;
  Values values_;
  int made_ = 0;
  bool special_ = false, coarse_ = false;
};

}  // namespace tenon
