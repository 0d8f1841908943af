// See index.h. Tested by tests/golden/golden_test.cc, tests/unit/runtime/run_test.cc.
#include "jit/analysis/index.h"

#include <algorithm>

namespace tenon::jit {

const IndexTerm* Index::find_axis(uint32_t axis) const {
  for (const IndexTerm& t : terms)
    if (!t.dynamic && t.id == axis) return &t;
  return nullptr;
}

Index IndexMath::axis(uint32_t id) const {
  if (axes_[id].extent == Dim(1)) return {{}, axes_[id].start};
  return {{{Dim(1), false, id, {}}}, axes_[id].start};
}

Index IndexMath::add(const Index& a, const Index& b) const {
  Index r{a.terms, dims_.add(a.offset, b.offset)};
  for (const IndexTerm& t : b.terms) {
    auto same = std::find_if(r.terms.begin(), r.terms.end(),
                             [&](const IndexTerm& u) { return u.dynamic == t.dynamic && u.id == t.id; });
    if (same == r.terms.end()) {
      r.terms.push_back(t);
    } else {
      same->coef = dims_.add(same->coef, t.coef);
      if (same->coef == Dim(0)) r.terms.erase(same);
    }
  }
  std::sort(r.terms.begin(), r.terms.end(), [](const IndexTerm& x, const IndexTerm& y) {
    return std::pair(x.dynamic, x.id) < std::pair(y.dynamic, y.id);
  });
  return r;
}

Index IndexMath::scale(const Index& a, Dim factor) const {
  if (factor == Dim(0)) return {};
  Index r = a;
  r.offset = dims_.mul(a.offset, factor);
  for (IndexTerm& t : r.terms) t.coef = dims_.mul(t.coef, factor);
  return r;
}

Index IndexMath::shift(const Index& a, Dim offset) const {
  Index r = a;
  r.offset = dims_.add(a.offset, offset);
  return r;
}

Index IndexMath::linear(const Indices& at, const Dims& strides) const {
  Index sum;
  for (size_t i = 0; i < at.size(); ++i) sum = add(sum, scale(at[i], strides[i]));
  return sum;
}

// Finds a == first * b + second. `first` collects the terms of a that b divides, and floored quotients of
// constants.
std::pair<Dim, Dim> IndexMath::divide_terms(Dim a, Dim b) const {
  auto divided = [&](Dim term) -> std::pair<Dim, Dim> {
    if (term.is_const() && b.is_const() && b.value() > 0)
      return {dims_.floor_div(term, b), dims_.mod(term, b)};
    const auto quotient = dims_.divide(term, b);
    return quotient ? std::pair(*quotient, Dim(0)) : std::pair(Dim(0), term);
  };
  if (a.is_const() || dims_.expr(a).kind != DimTable::Kind::sum) return divided(a);
  const std::vector<DimTable::Term> terms = dims_.expr(a).terms;  // a copy, because the table grows below
  Dim first(0), second(0);
  for (const DimTable::Term& t : terms) {
    const auto [quotient, rest] = divided(dims_.mul(Dim(t.factor), dims_.product(t.atoms)));
    first = dims_.add(first, quotient);
    second = dims_.add(second, rest);
  }
  return {first, second};
}

bool IndexMath::at_most(Dim a, Dim b) const {
  const auto low = dims_.lower_bound(dims_.sub(b, a));
  return low && *low >= 0;
}

IndexMath::Sign IndexMath::sign(Dim d) const {
  if (at_most(Dim(0), d)) return Sign::positive;
  return at_most(d, Dim(0)) ? Sign::negative : Sign::unknown;
}

std::optional<IndexRange> IndexMath::range(const Index& a) const {
  IndexRange r{a.offset, Dim(1)};
  for (const IndexTerm& t : a.terms) {
    const Sign s = sign(t.coef);
    if (s == Sign::unknown) return {};
    const Dim span = dims_.mul(t.coef, dims_.sub(extent(t), Dim(1)));
    if (s == Sign::negative) r.first = dims_.add(r.first, span);
    r.count = s == Sign::negative ? dims_.sub(r.count, span) : dims_.add(r.count, span);
  }
  return r;
}

// Whether the digit stays below its radix: by its largest value, or because its terms are themselves digits
// of a number, where each step is a multiple of the total count of the smaller ones.
bool IndexMath::below(const Digit& digit, Dim radix) const {
  if (at_most(dims_.add(digit.most, Dim(1)), radix)) return true;
  if (digit.least != Dim(0)) return false;
  auto rest = digit.counts;
  Dim reach(1);
  while (!rest.empty()) {
    auto next = std::find_if(rest.begin(), rest.end(), [&](const auto& t) {
      const Dim end = dims_.mul(t.first, t.second);
      return std::all_of(rest.begin(), rest.end(),
                         [&](const auto& u) { return &u == &t || dims_.divide(u.first, end); });
    });
    if (next == rest.end()) return false;
    reach = dims_.mul(next->first, next->second);
    rest.erase(next);
  }
  return at_most(reach, radix) || dims_.divide(radix, reach).has_value();
}

// Writes a number, given as a sum of coef * axis, as digits in the mixed radix `dims`. A choice of digits is
// right if their weighted sum is the number and every digit but the first lies in [0, radix). The first digit
// then does too, because the number is a position within `dims`. So each term goes to the digit with the
// largest weight that divides its step. Loops that run backwards are counted from their other end. The
// smallest value of the number is distributed over the digits, and the ranges are proven at the end. A term
// that crosses into the next higher digit requests a split of its axis. Since the loops run, all extents are
// at least 1.
bool IndexMath::digits(const Index& linear, const Dims& dims, Indices* out, Request* request) const {
  const size_t n = dims.size();
  const Dims weights = dense_strides(dims_, dims);
  auto decline = [&](const std::string& why) {
    *request = {.why = why + ": " + dims_.print(dims)};
    return false;
  };
  std::vector<Digit> digit(n);
  Dim least = linear.offset;
  for (const IndexTerm& t : linear.terms) {
    const Sign direction = sign(t.coef);
    if (direction == Sign::unknown) return decline("a reshape of loops whose direction depends on sizes");
    const bool backwards = direction == Sign::negative;
    const Dim step = backwards ? dims_.sub(Dim(0), t.coef) : t.coef, last = dims_.sub(extent(t), Dim(1));
    size_t k = 0;
    while (k + 1 < n && !dims_.divide(step, weights[k])) ++k;
    const auto factor = dims_.divide(step, weights[k]);
    if (!factor) return decline("a reshape does not align with the loops");
    Digit one;
    one.most = dims_.mul(*factor, last);
    one.counts = {{*factor, extent(t)}};
    if (k > 0 && !below(one, dims[k])) {
      auto inner = dims_.divide(weights[k - 1], step);
      if (t.dynamic || !inner || !dims_.divide(extent(t), *inner))
        return decline("a reshape does not align with the loops");
      *request = {Request::Kind::split, t.id, *inner, {}, {}};
      return false;
    }
    const Dim span = backwards ? one.most : Dim(0);
    const IndexTerm term{backwards ? dims_.sub(Dim(0), *factor) : *factor, t.dynamic, t.id, t.extent};
    digit[k].index = add(digit[k].index, Index{{term}, span});
    digit[k].most = dims_.add(digit[k].most, one.most);
    digit[k].counts.push_back(one.counts[0]);
    if (backwards) least = dims_.sub(least, dims_.mul(step, last));
  }
  for (size_t k = 0; k < n; ++k) {
    const auto [quotient, rest] = divide_terms(least, weights[k]);
    digit[k].index = shift(digit[k].index, quotient);
    digit[k].least = quotient;
    digit[k].most = dims_.add(digit[k].most, quotient);
    least = rest;
  }
  if (least != Dim(0)) return decline("an offset does not align with a reshape");
  for (size_t k = 1; k < n; ++k)
    if (!at_most(Dim(0), digit[k].least) || !below(digit[k], dims[k]))
      return decline("a shifted index crosses a reshape");
  out->clear();
  for (Digit& d : digit) out->push_back(std::move(d.index));
  check_digits(linear, dims, *out);
  return true;
}

// In debug builds, checks the invariants of digits() at the corners of the loops for a few values of the
// symbols.
void IndexMath::check_digits([[maybe_unused]] const Index& linear, [[maybe_unused]] const Dims& dims,
                             [[maybe_unused]] const Indices& digits) const {
#ifndef NDEBUG
  for (const int64_t size : {1, 2, 5, 12}) {
    std::vector<int64_t> symbols;
    for (int s = 0; s < dims_.symbol_count(); ++s) {
      const auto [low, high] = dims_.range(dims_.symbol_at(s));
      symbols.push_back(std::clamp(size, low, high));
    }
    for (const unsigned corner : {0U, ~0U, 0x55555555U, 0x33333333U}) {
      bool runs = true;
      auto value = [&](Dim d) {
        const auto v = dims_.eval(d, symbols);
        runs = runs && v;
        return v.value_or(0);
      };
      auto at_corner = [&](const Index& i) {
        int64_t sum = value(i.offset);
        for (const IndexTerm& t : i.terms) {
          const int64_t count = value(extent(t));
          runs = runs && count > 0;
          sum += corner >> (t.id % 32) & 1 ? value(t.coef) * (count - 1) : 0;
        }
        return sum;
      };
      const int64_t want = at_corner(linear);
      int64_t got = 0;
      bool within = true;
      for (size_t k = 0; k < dims.size(); ++k) {
        const int64_t d = at_corner(digits[k]), radix = value(dims[k]);
        runs = runs && radix > 0;
        within = within && (k == 0 || (0 <= d && d < radix));
        got = got * radix + d;
      }
      TENON_CHECK(!runs || (within && got == want), "digits of a reshape: " + dims_.print(dims));
    }
  }
#endif
}

bool IndexMath::reshape(const Dims& result, const Indices& at, const Dims& operand, Indices* out,
                        Request* request) const {
  // Walk both shapes from the left. Where the products of the dimensions taken so far agree, one block maps
  // onto the other.
  out->assign(operand.size(), Index{});
  size_t r = 0, o = 0;
  while (r < result.size() || o < operand.size()) {
    if (r < result.size() && result[r] == Dim(1)) {
      ++r;
      continue;
    }
    if (o < operand.size() && operand[o] == Dim(1)) {
      ++o;
      continue;
    }
    size_t r_end = r, o_end = o;
    Dim r_size(1), o_size(1);
    auto take_r = [&] { r_size = dims_.mul(r_size, result[r_end++]); };
    auto take_o = [&] { o_size = dims_.mul(o_size, operand[o_end++]); };
    if (r_end < result.size()) take_r();
    if (o_end < operand.size()) take_o();
    while (r_size != o_size && (r_end < result.size() || o_end < operand.size())) {
      bool grow_result;
      if (r_end == result.size())
        grow_result = false;
      else if (o_end == operand.size())
        grow_result = true;
      else if (r_size.is_const() && o_size.is_const())
        grow_result = r_size.value() < o_size.value();
      else
        grow_result = dims_.divide(o_size, r_size).has_value();
      if (grow_result)
        take_r();
      else
        take_o();
    }
    if (r_size != o_size) {
      *request = {.why = "a reshape from [" + dims_.print(operand) + "] to [" + dims_.print(result) +
                         "] has no common factors"};
      return false;
    }
    Dims from(result.begin() + r, result.begin() + r_end), to(operand.begin() + o, operand.begin() + o_end);
    if (to.size() == 1 && from.size() == 1) {
      (*out)[o] = at[r];
    } else {
      Index sum = linear(Indices(at.begin() + r, at.begin() + r_end), dense_strides(dims_, from));
      Indices part;
      if (to.size() == 1)
        part = {sum};
      else if (!digits(sum, to, &part, request))
        return false;
      std::copy(part.begin(), part.end(), out->begin() + o);
    }
    r = r_end;
    o = o_end;
  }
  return true;
}

}  // namespace tenon::jit
