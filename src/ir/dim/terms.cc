// See terms.h.
#include "src/ir/dim/terms.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace tenon {
namespace {

// Orders by degree, then by atoms. Multiplication preserves this order, as long division requires.
bool lower_monomial(const Term& a, const Term& b) {
  if (a.atoms.size() != b.atoms.size()) return a.atoms.size() < b.atoms.size();
  return a.atoms < b.atoms;
}

}  // namespace

bool normalize(Terms& terms) {
  std::sort(terms.begin(), terms.end());
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    size_t j = i;
    __int128 factor = 0;
    for (; j < terms.size() && terms[j].atoms == terms[i].atoms; ++j) factor += terms[j].factor;
    if (factor < Dim::kLowestConst || factor > INT64_MAX) return false;
    if (factor != 0) {
      if (kept != i) terms[kept].atoms = std::move(terms[i].atoms);
      terms[kept++].factor = static_cast<int64_t>(factor);
    }
    i = j;
  }
  terms.resize(kept);
  return true;
}

Terms negated(Terms terms) {
  for (Term& t : terms) t.factor = -t.factor;
  return terms;
}

bool all_negative(const Terms& terms) {
  return std::all_of(terms.begin(), terms.end(), [](const Term& t) { return t.factor < 0; });
}

int64_t constant_of(const Terms& terms) {
  return !terms.empty() && terms[0].atoms.empty() ? terms[0].factor : 0;
}

bool multiply(const Term& a, const Term& b, Term& out) {
  out.atoms.resize(a.atoms.size() + b.atoms.size());
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), out.atoms.begin());
  return times(a.factor, b.factor, out.factor);
}

bool divide_term(const Term& a, const Term& b, Term& out) {
  if (a.factor % b.factor != 0) return false;
  if (!std::includes(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end())) return false;
  out.factor = a.factor / b.factor;
  out.atoms.clear();
  std::set_difference(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                      std::back_inserter(out.atoms));
  return true;
}

std::optional<Terms> exact_quotient(Terms a, const Terms& b) {
  Terms quotient;
  const Term& b_lead = *std::max_element(b.begin(), b.end(), lower_monomial);
  while (!a.empty()) {
    Term q;
    if (quotient.size() >= kMaxTerms || a.size() > 4 * kMaxTerms) return std::nullopt;
    if (!divide_term(*std::max_element(a.begin(), a.end(), lower_monomial), b_lead, q)) return std::nullopt;
    for (const Term& t : b) {
      Term p;
      if (!multiply(q, t, p) || p.factor == INT64_MIN) return std::nullopt;
      p.factor = -p.factor;
      a.push_back(std::move(p));
    }
    if (!normalize(a)) return std::nullopt;
    quotient.push_back(std::move(q));
  }
  return quotient;
}

Term common_factor(const Terms& a, const Terms& b) {
  Term out{0, a[0].atoms};
  for (const Terms* terms : {&a, &b})
    for (const Term& t : *terms) {
      std::vector<Dim> shared;
      std::set_intersection(out.atoms.begin(), out.atoms.end(), t.atoms.begin(), t.atoms.end(),
                            std::back_inserter(shared));
      out.atoms = std::move(shared);
      out.factor = std::gcd(out.factor, t.factor);
    }
  return out;
}

Terms divided(const Terms& terms, const Term& by) {
  Terms out(terms.size());
  for (size_t i = 0; i < terms.size(); ++i) divide_term(terms[i], by, out[i]);
  return out;
}

}  // namespace tenon
