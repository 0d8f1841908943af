// Terms: sums of products, the form in which DimTable (dim.h) keeps sizes, and their arithmetic. Nothing here
// looks inside an atom or at a table. normalize() sorts a sum, adds like terms and drops zeros. Tested by
// tests/unit/ir/dim_test.cc.
#pragma once

#include <optional>
#include <vector>

#include "src/ir/dim/dim.h"

namespace tenon {

using Term = DimTable::Term;
using Terms = std::vector<Term>;

// A sum with more terms is overflow. The limit bounds the time for any input; sizes of real models have fewer
// than ten.
inline constexpr size_t kMaxTerms = 512;

// False if the product does not fit in int64.
inline bool times(int64_t a, int64_t b, int64_t& out) { return !__builtin_mul_overflow(a, b, &out); }

// Python's // and %.
inline int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline int64_t floor_remainder(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Sorts, adds like terms and drops zeros. False if a factor does not fit a Dim.
bool normalize(Terms& terms);
Terms negated(Terms terms);
bool all_negative(const Terms& terms);
int64_t constant_of(const Terms& terms);
bool multiply(const Term& a, const Term& b, Term& out);     // false if the factor does not fit
bool divide_term(const Term& a, const Term& b, Term& out);  // false if b does not divide a
// The quotient if b divides a as a polynomial.
std::optional<Terms> exact_quotient(Terms a, const Terms& b);
// The largest monomial that divides every term of a and b.
Term common_factor(const Terms& a, const Terms& b);
Terms divided(const Terms& terms, const Term& by);

}  // namespace tenon
