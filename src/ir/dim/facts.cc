// The effect of equalities on sizes. An equality becomes a rewrite rule that replaces the more complicated of
// its monomials: N//8 == M becomes N//8 -> M, and N*M + 1 == 17 becomes N*M -> 16. from_terms applies the
// rules to every sum. Each rule makes a term smaller, in the order of lighter() below, or eliminates a
// symbol. The rules need not find every consequence of the facts: an equality that they miss costs a check at
// run time. Tested by tests/unit/ir/dim_test.cc.
#include <algorithm>
#include <numeric>

#include "src/ir/dim/terms.h"

namespace tenon {
namespace {

constexpr int kMaxSteps = 64;       // rule applications to one sum; real sums need two or three
constexpr int kMaxRounds = 8;       // rounds of applying facts to each other
constexpr size_t kMaxRules = 1024;  // rules that one table ever makes

}  // namespace

bool DimTable::apply_facts(Terms& terms) const {
  if (rewrites_.empty()) return true;
  for (int step = 0; step < kMaxSteps; ++step) {
    Terms put;
    auto matches = [&](const Term& t) {
      return std::any_of(rewrites_.begin(), rewrites_.end(), [&](const Rewrite& r) {
        Term rest;
        if (!divide_term(t, r.from, rest)) return false;
        put.clear();
        return std::all_of(r.to.begin(), r.to.end(),
                           [&](const Term& to) { return multiply(rest, to, put.emplace_back()); });
      });
    };
    auto found = std::find_if(terms.begin(), terms.end(), matches);
    if (found == terms.end()) return true;
    terms.erase(found);
    terms.insert(terms.end(), put.begin(), put.end());
    if (!normalize(terms)) return false;
  }
  return true;
}

Dim DimTable::again(Dim d) {
  if (d.is_const() || is_overflow(d)) return d;
  const Expr e = expr(d);  // a copy, because the table grows
  if (e.kind == Kind::symbol) return from_terms({{1, {d}}});
  if (e.kind == Kind::sum) {
    Dim sum(0);
    for (const Term& t : e.terms) {
      Dim product(t.factor);
      for (Dim factor : t.atoms) product = mul(product, again(factor));
      sum = add(sum, product);
    }
    return sum;
  }
  const Dim a = again(e.a), b = again(e.b);
  switch (e.kind) {
    case Kind::floor_div: return b == Dim(0) ? d : floor_div(a, b);
    case Kind::mod: return b == Dim(0) ? d : mod(a, b);
    case Kind::max: return max(a, b);
    default: return min(a, b);
  }
}

bool DimTable::occurs(Dim part, Dim d) const {
  if (d == part) return true;
  if (d.is_const() || is_overflow(d)) return false;
  const Expr& e = expr(d);
  if (e.kind == Kind::symbol) return false;
  if (e.kind != Kind::sum) return occurs(part, e.a) || occurs(part, e.b);
  return std::any_of(e.terms.begin(), e.terms.end(), [&](const Term& t) {
    return std::any_of(t.atoms.begin(), t.atoms.end(), [&](Dim atom) { return occurs(part, atom); });
  });
}

uint64_t DimTable::weight_of(const Term& term) const {
  return std::accumulate(term.atoms.begin(), term.atoms.end(), uint64_t{0},
                         [&](uint64_t sum, Dim atom) { return sum + weight_[index(atom)]; });
}

// Adds the rule for zero == 0. Its left side is the heaviest lone atom that does not occur elsewhere, or else
// the heaviest monomial.
bool DimTable::add_rewrite(Dim zero) {
  Terms terms = terms_of(zero);
  if (terms.empty() || rewrites_made_ >= kMaxRules) return false;
  int64_t content = 0;
  for (const Term& t : terms) content = std::gcd(content, t.factor);
  for (Term& t : terms) t.factor /= content;
  const Terms reduced = terms;
  auto lighter = [&](const Term& a, const Term& b) {
    const uint64_t x = weight_of(a), y = weight_of(b);
    if (x != y) return x < y;
    if (a.atoms.size() != b.atoms.size()) return a.atoms.size() < b.atoms.size();
    return a.atoms < b.atoms;
  };
  size_t from = terms.size();
  for (size_t i = 0; i < terms.size(); ++i) {
    const Term& t = terms[i];
    if (t.atoms.size() != 1 || (t.factor != 1 && t.factor != -1)) continue;
    bool elsewhere = false;
    for (size_t k = 0; k < terms.size(); ++k)
      for (Dim atom : terms[k].atoms) elsewhere = elsewhere || (k != i && occurs(t.atoms[0], atom));
    if (!elsewhere && (from == terms.size() || lighter(terms[from], t))) from = i;
  }
  if (from == terms.size())
    from = static_cast<size_t>(std::max_element(terms.begin(), terms.end(), lighter) - terms.begin());
  if (terms[from].atoms.empty()) return false;  // a constant other than 0
  Rewrite rule{terms[from], {}};
  terms.erase(terms.begin() + static_cast<ptrdiff_t>(from));
  const bool negative = rule.from.factor < 0;
  if (negative) rule.from.factor = -rule.from.factor;
  rule.to = negative ? std::move(terms) : negated(std::move(terms));
  // The new rule may rewrite the left sides of older rules; make those rules again.
  std::vector<Rewrite> old;
  std::erase_if(rewrites_, [&](Rewrite& r) {
    Term rest;
    if (!divide_term(r.from, rule.from, rest)) return false;
    old.push_back(std::move(r));
    return true;
  });
  rewrites_.push_back(std::move(rule));
  ++rewrites_made_;
  for (Rewrite& r : old) {
    Terms difference = negated(std::move(r.to));
    difference.push_back(std::move(r.from));
    add_rewrite(from_terms(std::move(difference)));
  }
  add_remainders(reduced);
  return true;
}

// Adds x%b == 0 if the terms are those of b*(x//b) - x.
void DimTable::add_remainders(const Terms& terms) {
  for (const Term& t : terms)
    for (Dim part : t.atoms) {
      const Expr e = expr(part);
      if (e.kind != Kind::floor_div) continue;
      Terms exact = negated(terms_of(e.a));
      for (const Term& factor : terms_of(e.b))
        if (Term product; multiply(factor, {1, {part}}, product)) exact.push_back(std::move(product));
      if (normalize(exact) && (exact == terms || negated(exact) == terms)) add_rewrite(again(mod(e.a, e.b)));
    }
}

// Also adds b*(x//b) == x if x%b == 0.
void DimTable::add_rewrites_of(Dim a, Dim b) {
  const Dim zero = again(sub(a, b));
  if (zero.is_const() || is_overflow(zero)) return;
  const Terms terms = terms_of(zero);
  add_rewrite(zero);
  if (terms.size() != 1 || terms[0].atoms.size() != 1) return;
  const Expr e = expr(terms[0].atoms[0]);
  if (e.kind == Kind::mod) add_rewrite(again(sub(mul(e.b, floor_div(e.a, e.b)), e.a)));
}

bool DimTable::set_equal(Dim a, Dim b) {
  if (const auto known = equal(a, b)) return *known;
  if (std::ranges::find(equalities_, Equality{a, b}) != equalities_.end()) return true;
  equalities_.push_back({a, b});
  // A rule may change the form of the sizes in older facts. Repeat until all facts hold in their new form.
  for (int round = 0; round < kMaxRounds; ++round) {
    const size_t before = rewrites_made_;
    for (size_t i = 0; i < equalities_.size(); ++i) {
      const Equality e = equalities_[i];
      add_rewrites_of(e.a, e.b);
    }
    if (rewrites_made_ == before) break;
  }
  return true;
}

std::optional<bool> DimTable::equal(Dim a, Dim b) {
  if (a == b) return true;
  const Dim difference = again(sub(a, b));
  if (is_overflow(difference)) return std::nullopt;
  if (difference == Dim(0)) return true;
  const Bounds range = bounds(difference);
  if ((range.low && *range.low > 0) || (range.high && *range.high < 0)) return false;
  return std::nullopt;
}

}  // namespace tenon
