// The table of sizes and their normal form. dim.h defines it; the comment above each function lists the
// rewrites that lead to it. Tested by tests/unit/ir/dim_test.cc.
#include "src/ir/dim/dim.h"

#include <algorithm>
#include <numeric>

#include "src/base/hash.h"
#include "src/base/text.h"
#include "src/ir/dim/terms.h"

namespace tenon {
namespace {

// A larger expression is overflow(), as is one with more than kMaxTerms terms. The limits bound recursion and
// time for any input. Sizes of real models have fewer than ten terms and five levels.
constexpr uint32_t kMaxWeight = 1 << 14;
constexpr uint32_t kMaxDepth = 128;

}  // namespace

DimTable::DimTable() {
  exprs_.push_back({Kind::floor_div, {}, {}, Dim(1), Dim(0)});
  weight_.push_back(1);
  depth_.push_back(1);
}

Dim DimTable::overflow() {
  Dim d;
  d.bits = INT64_MIN;
  return d;
}

Dim DimTable::symbol(std::string_view name) {
  TENON_CHECK(is_name(name), "a symbol needs a name of letters, digits, _ and .");
  if (auto known = find_symbol(name)) return *known;
  Dim d = intern({Kind::symbol, std::string(name), {}, {}, {}});
  symbol_numbers_[d.bits] = static_cast<int>(symbols_.size());
  symbols_.push_back(d);
  ranges_.emplace_back(0, kHighest);
  return d;
}

std::optional<Dim> DimTable::find_symbol(std::string_view name) const {
  const Expr e{Kind::symbol, std::string(name), {}, {}, {}};
  const auto known = find(e, hash_of(e));
  if (!known) return std::nullopt;
  Dim d;
  d.bits = *known;
  return d;
}

int DimTable::symbol_number(Dim symbol) const {
  auto it = symbol_numbers_.find(symbol.bits);
  TENON_CHECK(it != symbol_numbers_.end(), "not a symbol: " + print(symbol));
  return it->second;
}

void DimTable::set_range(Dim symbol, int64_t low, int64_t high) {
  TENON_CHECK(low <= high, "empty range of " + print(symbol));
  ranges_[symbol_number(symbol)] = {low, high};
}

uint64_t DimTable::hash_of(const Expr& e) {
  uint64_t h = hash_bytes(e.symbol, static_cast<uint64_t>(e.kind));
  auto mix = [&](int64_t x) { h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15, h ^= h >> 29; };
  for (const Term& t : e.terms) {
    mix(t.factor);
    for (Dim atom : t.atoms) mix(atom.bits);
  }
  mix(e.a.bits), mix(e.b.bits);
  return h;
}

std::optional<int64_t> DimTable::find(const Expr& e, uint64_t hash) const {
  auto [it, end] = ids_.equal_range(hash);
  for (; it != end; ++it) {
    Dim d;
    d.bits = it->second;
    if (expr(d) == e) return d.bits;
  }
  return std::nullopt;
}

Dim DimTable::intern(Expr e) {
  constexpr uint64_t kAnyExpr = 3;  // weight of the table's entries for an expression, besides its terms
  const uint64_t hash = hash_of(e);
  Dim d;
  if (const auto known = find(e, hash)) {
    d.bits = *known;
    return d;
  }
  uint64_t weight = 1;
  uint32_t depth = 0;
  auto count = [&](Dim part) {
    weight += part.is_const() ? 1 : weight_[index(part)];
    if (!part.is_const()) depth = std::max(depth, depth_[index(part)]);
  };
  for (const Term& t : e.terms) {
    ++weight;
    for (Dim atom : t.atoms) count(atom);
  }
  if (e.kind != Kind::symbol && e.kind != Kind::sum) {
    count(e.a);
    count(e.b);
  }
  // A symbol is never refused: its weight is that of its name.
  if (e.kind == Kind::symbol)
    weight += e.symbol.size() / 32;
  else if (weight > kMaxWeight || depth >= kMaxDepth || total_weight_ + weight + kAnyExpr > kMostInTable)
    return overflow();
  d.bits = INT64_MIN + static_cast<int64_t>(exprs_.size());
  ids_.emplace(hash, d.bits);
  exprs_.push_back(std::move(e));
  weight_.push_back(static_cast<uint32_t>(weight));
  depth_.push_back(depth + 1);
  total_weight_ += weight + kAnyExpr;
  return d;
}

Terms DimTable::terms_of(Dim d) const {
  if (d.is_const()) return d.value() == 0 ? Terms{} : Terms{{d.value(), {}}};
  if (expr(d).kind == Kind::sum) return expr(d).terms;
  return {{1, {d}}};
}

Dim DimTable::from_terms(Terms terms) {
  if (!normalize(terms) || !apply_facts(terms) || terms.size() > kMaxTerms) return overflow();
  if (terms.empty()) return Dim(0);
  if (terms.size() == 1 && terms[0].atoms.empty()) return Dim(terms[0].factor);
  if (terms.size() == 1 && terms[0].factor == 1 && terms[0].atoms.size() == 1) return terms[0].atoms[0];
  return intern({Kind::sum, {}, std::move(terms), {}, {}});
}

Dim DimTable::sum(std::span<const Dim> plus, std::span<const Dim> minus) {
  Terms terms;
  for (bool up : {true, false})
    for (Dim d : up ? plus : minus) {
      if (is_overflow(d)) return overflow();
      Terms more = up ? terms_of(d) : negated(terms_of(d));
      std::move(more.begin(), more.end(), std::back_inserter(terms));
      // A sum in a text may have any number of terms.
      if (terms.size() > 4 * kMaxTerms && (!normalize(terms) || terms.size() > kMaxTerms)) return overflow();
    }
  return from_terms(std::move(terms));
}

Dim DimTable::add(Dim a, Dim b) {
  const Dim both[] = {a, b};
  return sum(both);
}

Dim DimTable::sub(Dim a, Dim b) { return sum({&a, 1}, {&b, 1}); }

Dim DimTable::mul(Dim a, Dim b) {
  if (is_overflow(a) || is_overflow(b)) return overflow();
  const Dim both[] = {a, b};
  return product(both);
}

Dim DimTable::product(std::span<const Dim> dims) {
  // A zero makes the product zero, however large the other factors are.
  if (std::find(dims.begin(), dims.end(), Dim(0)) != dims.end()) return Dim(0);
  int64_t number = 1;
  const auto multiplies = [&](Dim d) {
    return d.is_const() && !__builtin_mul_overflow(number, d.value(), &number);
  };
  if (std::all_of(dims.begin(), dims.end(), multiplies) && Dim::fits(number)) return Dim(number);
  Terms product{{1, {}}};
  for (Dim d : dims) {
    if (is_overflow(d)) return overflow();
    const Terms factors = terms_of(d);
    if (product.size() * factors.size() > kMaxTerms * 16) return overflow();
    Terms next;
    next.reserve(product.size() * factors.size());
    for (const Term& x : product)
      for (const Term& y : factors)
        if (!multiply(x, y, next.emplace_back())) return overflow();
    if (!normalize(next) || next.size() > kMaxTerms) return overflow();
    product = std::move(next);
  }
  return from_terms(std::move(product));
}

// x//(-b) == (-x)//b.
// (q*b)//b == q. (g*x)//(g*b) == x//b. (q*b + x)//b == q + x//b for a monomial b.
// x//b == 0 if 0 <= x < b.
Dim DimTable::floor_div(Dim a, Dim b) {
  TENON_CHECK(b != Dim(0), "size divided by zero: " + print(a) + "//0");
  if (is_overflow(a) || is_overflow(b)) return overflow();
  if (a == Dim(0)) return a;
  if (b.is_const())
    return b.value() > 0 ? floor_div_const(a, b.value()) : floor_div(sub(Dim(0), a), sub(Dim(0), b));
  Terms x = terms_of(a), y = terms_of(b);
  if (all_negative(y)) return floor_div(from_terms(negated(x)), from_terms(negated(y)));
  if (auto q = exact_quotient(x, y)) return from_terms(*q);
  Term common = common_factor(x, y);
  if (common.factor != 1 || !common.atoms.empty())
    return floor_div(from_terms(divided(x, common)), from_terms(divided(y, common)));
  if (y.size() == 1) {
    Terms whole, rest;
    for (Term& t : x) {
      Term q;
      if (divide_term(t, y[0], q))
        whole.push_back(std::move(q));
      else
        rest.push_back(std::move(t));
    }
    if (!whole.empty()) return add(from_terms(std::move(whole)), floor_div(from_terms(std::move(rest)), b));
  }
  auto low = lower_bound(a), divisor = lower_bound(b);
  if (low && *low >= 0 && divisor && *divisor >= 1 && never_less(b, add(a, Dim(1)))) return Dim(0);
  return atom({Kind::floor_div, {}, {}, a, b});
}

// (q*b + x)//b == q + x//b. (g*x + k)//(g*b) == (x + k//g)//b. (x//c + k)//b == (x + c*k)//(c*b).
Dim DimTable::floor_div_const(Dim a, int64_t b) {
  if (a.is_const()) return Dim(floor_quotient(a.value(), b));
  if (b == 1) return a;
  Terms whole, rest;
  int64_t divisor = b, shared = b;
  for (Term& t : terms_of(a)) {
    if (t.factor % b == 0) {
      whole.push_back({t.factor / b, std::move(t.atoms)});
    } else if (t.atoms.empty()) {
      whole.push_back({floor_quotient(t.factor, b), {}});
      rest.push_back({floor_remainder(t.factor, b), {}});
    } else {
      shared = std::gcd(shared, t.factor);
      rest.push_back(std::move(t));
    }
  }
  for (Term& t : rest) t.factor = floor_quotient(t.factor, shared);
  divisor /= shared;
  Dim front = from_terms(std::move(whole));
  if (divisor == 1) return add(front, from_terms(std::move(rest)));
  Dim inner = from_terms(std::move(rest));
  if (is_overflow(inner)) return inner;
  if (inner.is_const()) return add(front, Dim(floor_quotient(inner.value(), divisor)));
  Terms terms = terms_of(inner);
  if (terms.size() <= 2 && terms.back().factor == 1 && terms.back().atoms.size() == 1 &&
      (terms.size() == 1 || terms[0].atoms.empty())) {
    Dim x = terms.back().atoms[0];
    int64_t both;
    if (expr(x).kind == Kind::floor_div && expr(x).b.is_const() && times(expr(x).b.value(), divisor, both)) {
      Dim c = expr(x).b;
      return add(front, floor_div_const(add(expr(x).a, mul(c, Dim(constant_of(terms)))), both));
    }
  }
  Bounds range = bounds(inner);
  if (range.low && range.high && floor_quotient(*range.low, divisor) == floor_quotient(*range.high, divisor))
    return add(front, Dim(floor_quotient(*range.low, divisor)));
  return add(front, atom({Kind::floor_div, {}, {}, inner, Dim(divisor)}));
}

// x%(-b) == -((-x)%b).
// (q*b)%b == 0. (g*x)%(g*b) == g*(x%b). (q*b + x)%b == x%b for a monomial b. (x%b)%b == x%b.
// x%b == x if 0 <= x < b.
Dim DimTable::mod(Dim a, Dim b) {
  TENON_CHECK(b != Dim(0), "size divided by zero: " + print(a) + "%0");
  if (is_overflow(a) || is_overflow(b)) return overflow();
  if (a == Dim(0)) return a;
  if (b.is_const())
    return b.value() > 0 ? mod_const(a, b.value()) : sub(Dim(0), mod(sub(Dim(0), a), sub(Dim(0), b)));
  Terms x = terms_of(a), y = terms_of(b);
  if (all_negative(y)) return sub(Dim(0), mod(from_terms(negated(x)), from_terms(negated(y))));
  if (exact_quotient(x, y)) return Dim(0);
  Term common = common_factor(x, y);
  if (common.factor != 1 || !common.atoms.empty()) {
    Dim outside = from_terms({common});
    return mul(outside, mod(from_terms(divided(x, common)), from_terms(divided(y, common))));
  }
  if (y.size() == 1) {
    Terms rest;
    Term q;
    for (Term& t : x)
      if (!divide_term(t, y[0], q)) rest.push_back(std::move(t));
    if (rest.size() != x.size()) return mod(from_terms(std::move(rest)), b);
  }
  if (!a.is_const() && expr(a).kind == Kind::mod && expr(a).b == b) return a;
  auto low = lower_bound(a), divisor = lower_bound(b);
  if (low && *low >= 0 && divisor && *divisor >= 1 && never_less(b, add(a, Dim(1)))) return a;
  return atom({Kind::mod, {}, {}, a, b});
}

// x%1 == 0. ((q*b + r)*x)%b == (r*x)%b. (x%(q*b) + y)%b == (x + y)%b.
// (g*x + g*k + r)%(g*b) == g*((x + k)%b) + r for 0 <= r < g.
Dim DimTable::mod_const(Dim a, int64_t b) {
  if (a.is_const()) return Dim(floor_remainder(a.value(), b));
  if (b == 1) return Dim(0);
  Bounds range = bounds(a);
  if (range.low && range.high && *range.low >= 0 && *range.high < b) return a;
  Terms terms = terms_of(a), rest;
  bool opened = false;
  int64_t shared = b;
  for (Term& t : terms) {
    t.factor = floor_remainder(t.factor, b);
    if (t.factor == 0) continue;
    if (t.atoms.size() == 1 && expr(t.atoms[0]).kind == Kind::mod && expr(t.atoms[0]).b.is_const() &&
        expr(t.atoms[0]).b.value() % b == 0) {
      opened = true;
      for (Term inner : terms_of(expr(t.atoms[0]).a)) {
        inner.factor =
            static_cast<int64_t>(static_cast<__int128>(floor_remainder(inner.factor, b)) * t.factor % b);
        rest.push_back(std::move(inner));
      }
      continue;
    }
    if (!t.atoms.empty()) shared = std::gcd(shared, t.factor);
    rest.push_back(std::move(t));
  }
  if (opened) return mod_const(from_terms(std::move(rest)), b);
  Dim reduced = from_terms(rest);
  if (is_overflow(reduced)) return reduced;
  if (reduced.is_const()) return Dim(floor_remainder(reduced.value(), b));
  if (shared > 1) {
    int64_t constant = constant_of(rest);
    for (Term& t : rest) t.factor = floor_quotient(t.factor, shared);
    Dim inside = mod_const(from_terms(std::move(rest)), b / shared);
    return add(mul(Dim(shared), inside), Dim(floor_remainder(constant, shared)));
  }
  range = bounds(reduced);
  if (range.low && range.high && *range.low >= 0 && *range.high < b) return reduced;
  return atom({Kind::mod, {}, {}, reduced, Dim(b)});
}

Dim DimTable::max(Dim a, Dim b) { return extremum(Kind::max, a, b); }
Dim DimTable::min(Dim a, Dim b) { return extremum(Kind::min, a, b); }

std::vector<Dim> DimTable::flatten(Kind kind, Dim d) const {
  std::vector<Dim> todo{d}, out;
  while (!todo.empty()) {
    Dim next = todo.back();
    todo.pop_back();
    if (next.is_const() || expr(next).kind != kind) {
      out.push_back(next);
    } else {
      todo.push_back(expr(next).b);
      todo.push_back(expr(next).a);
    }
  }
  return out;
}

// max(a, b) == a if a >= b by the facts.
// Nested ones are flattened and sorted: max(max(a,b),c) == max(a,max(b,c)).
Dim DimTable::extremum(Kind kind, Dim a, Dim b) {
  if (is_overflow(a) || is_overflow(b)) return overflow();
  std::vector<Dim> operands = flatten(kind, a), more = flatten(kind, b), kept;
  operands.insert(operands.end(), more.begin(), more.end());
  for (Dim d : operands) {
    auto beats = [&](Dim x, Dim y) { return kind == Kind::max ? never_less(x, y) : never_less(y, x); };
    if (std::any_of(kept.begin(), kept.end(), [&](Dim k) { return beats(k, d); })) continue;
    std::erase_if(kept, [&](Dim k) { return beats(d, k); });
    kept.push_back(d);
  }
  std::sort(kept.begin(), kept.end());
  Dim out = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) {
    out = atom({kind, {}, {}, std::min(out, kept[i]), std::max(out, kept[i])});
    if (is_overflow(out)) return out;
  }
  return out;
}

std::optional<Dim> DimTable::divide(Dim a, Dim b) {
  if (is_overflow(a) || is_overflow(b) || b == Dim(0)) return std::nullopt;
  auto q = exact_quotient(terms_of(a), terms_of(b));
  if (!q && mod(a, b) != Dim(0)) return std::nullopt;
  Dim out = q ? from_terms(std::move(*q)) : floor_div(a, b);
  return is_overflow(out) ? std::nullopt : std::optional(out);
}

void DimTable::collect_symbols(Dim d, std::vector<Dim>& out) const {
  if (d.is_const() || is_overflow(d)) return;
  const Expr& e = expr(d);
  if (e.kind == Kind::symbol) {
    if (std::find(out.begin(), out.end(), d) == out.end()) out.push_back(d);
  } else if (e.kind == Kind::sum) {
    for (const Term& t : e.terms)
      for (Dim atom : t.atoms) collect_symbols(atom, out);
  } else {
    collect_symbols(e.a, out);
    collect_symbols(e.b, out);
  }
}

void SymbolsOf::add(Dim d) {
  if (d.is_const() || dims_.is_overflow(d) || !seen_.insert(d.bits).second) return;
  const DimTable::Expr& e = dims_.expr(d);
  if (e.kind == DimTable::Kind::symbol) {
    list_.push_back(d);
  } else if (e.kind == DimTable::Kind::sum) {
    for (const DimTable::Term& t : e.terms) add(t.atoms);
  } else {
    add(e.a);
    add(e.b);
  }
}

}  // namespace tenon
