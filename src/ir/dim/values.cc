// The values of sizes: bounds by the facts, and the value at given symbols. Tested by
// tests/unit/ir/dim_test.cc.
#include <algorithm>

#include "src/ir/dim/terms.h"

namespace tenon {

bool DimTable::never_less(Dim a, Dim b) const {
  if (a == b) return true;
  Terms terms = terms_of(a), less = negated(terms_of(b));
  terms.insert(terms.end(), less.begin(), less.end());
  if (!normalize(terms)) return false;
  auto low = sum_bounds(terms).low;
  return low && *low >= 0;
}

DimTable::Bounds DimTable::sum_bounds(const Terms& terms) const {
  __int128 low = 0, high = 0;
  bool has_low = true, has_high = true;
  for (const Term& t : terms) {
    Bounds product{t.factor, t.factor};
    for (Dim atom : t.atoms) {
      Bounds x = bounds(atom);
      if (product.low && product.high && x.low && x.high) {
        int64_t corner[4];
        bool fits = times(*product.low, *x.low, corner[0]) && times(*product.low, *x.high, corner[1]) &&
                    times(*product.high, *x.low, corner[2]) && times(*product.high, *x.high, corner[3]);
        if (fits) {
          product = {*std::min_element(corner, corner + 4), *std::max_element(corner, corner + 4)};
          continue;
        }
      }
      // Without both ends, only signs are known.
      bool up = product.low && *product.low >= 0, down = product.high && *product.high <= 0;
      bool x_up = x.low && *x.low >= 0, x_down = x.high && *x.high <= 0;
      int64_t end;
      Bounds next;
      if ((up && x_up) || (down && x_down))
        next.low = up && x_up && times(*product.low, *x.low, end) ? end : 0;
      if ((up && x_down) || (down && x_up)) next.high = 0;
      if (down && x_up && times(*product.high, *x.low, end)) next.high = end;
      product = next;
    }
    if (product.low)
      low += *product.low;
    else
      has_low = false;
    if (product.high)
      high += *product.high;
    else
      has_high = false;
  }
  Bounds sum;
  if (has_low && low >= INT64_MIN && low <= INT64_MAX) sum.low = static_cast<int64_t>(low);
  if (has_high && high >= INT64_MIN && high <= INT64_MAX) sum.high = static_cast<int64_t>(high);
  // A quotient x // b by a constant b >= 1 lies between (x - b + 1) / b and x / b, so the bounds of the sum follow from those of b times the
  // sum: s - 2*(s//2) is at most 1, though neither term has an upper bound.
  const auto quotient = std::ranges::find_if(terms, [&](const Term& t) {
    if (t.atoms.size() != 1) return false;
    const Expr& e = expr(t.atoms[0]);
    return e.kind == Kind::floor_div && e.b.is_const() && e.b.value() >= 1;
  });
  if (quotient == terms.end()) return sum;
  const Dim dividend = expr(quotient->atoms[0]).a;
  const int64_t divisor = expr(quotient->atoms[0]).b.value();
  Terms scaled;  // the sum times the divisor, with the dividend in the place of divisor * quotient
  bool fits = true;
  const auto add = [&](const Term& t, int64_t by) {
    Term product;
    fits = fits && multiply(t, {by, {}}, product);
    if (fits) scaled.push_back(std::move(product));
  };
  for (auto t = terms.begin(); t != terms.end(); ++t)
    if (t != quotient) add(*t, divisor);
  for (const Term& t : terms_of(dividend)) add(t, quotient->factor);
  int64_t rest, end;  // rest: what the largest remainder makes of the scaled sum
  if (!fits || !times(quotient->factor, divisor - 1, rest) || !normalize(scaled)) return sum;
  const Bounds loose = sum_bounds(scaled);
  if (loose.low && !__builtin_sub_overflow(*loose.low, std::max<int64_t>(rest, 0), &end))
    sum.low = std::max(sum.low.value_or(INT64_MIN),
                       floor_quotient(end, divisor) + (floor_remainder(end, divisor) != 0));
  if (loose.high && !__builtin_sub_overflow(*loose.high, std::min<int64_t>(rest, 0), &end))
    sum.high = std::min(sum.high.value_or(INT64_MAX), floor_quotient(end, divisor));
  return sum;
}

DimTable::Bounds DimTable::bounds(Dim d) const {
  if (d.is_const()) return {d.value(), d.value()};
  if (is_overflow(d)) return {};
  const Expr& e = expr(d);
  if (e.kind == Kind::symbol) {
    auto [low, high] = ranges_[symbol_number(d)];
    return {low, high};
  }
  if (e.kind == Kind::sum) return sum_bounds(e.terms);
  Bounds a = bounds(e.a), b = bounds(e.b), out;
  auto either = [](std::optional<int64_t> x, std::optional<int64_t> y, bool greater) {
    if (!x || !y) return x ? x : y;
    return std::optional(greater ? std::max(*x, *y) : std::min(*x, *y));
  };
  switch (e.kind) {
    case Kind::floor_div:
      if (!b.low || *b.low < 1) break;
      // With a positive divisor the quotient grows with the dividend; a larger divisor moves it towards zero.
      if (a.low && *a.low >= 0)
        out.low = b.high ? *a.low / *b.high : 0;
      else if (a.low)
        out.low = floor_quotient(*a.low, *b.low);
      if (a.high && *a.high >= 0)
        out.high = *a.high / *b.low;
      else if (a.high)
        out.high = b.high ? floor_quotient(*a.high, *b.high) : -1;
      break;
    case Kind::mod:
      if (!b.low || *b.low < 1) break;
      out.low = 0;
      if (b.high) out.high = *b.high - 1;
      if (a.low && *a.low >= 0) out.high = a.high ? either(out.high, a.high, false) : out.high;
      break;
    case Kind::max:
      out.low = either(a.low, b.low, true);
      if (a.high && b.high) out.high = std::max(*a.high, *b.high);
      break;
    case Kind::min:
      out.high = either(a.high, b.high, false);
      if (a.low && b.low) out.low = std::min(*a.low, *b.low);
      break;
    case Kind::symbol:
    case Kind::sum: break;
  }
  return out;
}

std::optional<int64_t> DimTable::eval(Dim d, std::span<const int64_t> values) const {
  if (d.is_const()) return d.value();
  const Expr& e = expr(d);
  if (e.kind == Kind::symbol) {
    size_t number = static_cast<size_t>(symbol_number(d));
    return number < values.size() ? std::optional(values[number]) : std::nullopt;
  }
  if (e.kind == Kind::sum) {
    __int128 sum = 0;
    for (const Term& t : e.terms) {
      int64_t product = t.factor;
      bool fits = true, zero = false;
      for (Dim atom : t.atoms) {
        auto x = eval(atom, values);
        if (!x) return std::nullopt;
        zero |= *x == 0;
        fits = fits && times(product, *x, product);
      }
      if (zero) continue;
      if (!fits) return std::nullopt;
      sum += product;
    }
    if (sum < INT64_MIN || sum > INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(sum);
  }
  auto a = eval(e.a, values), b = eval(e.b, values);
  if (!a || !b) return std::nullopt;
  switch (e.kind) {
    case Kind::floor_div:
    case Kind::mod:
      if (*b == 0 || (*a == INT64_MIN && *b == -1)) return std::nullopt;
      return e.kind == Kind::mod ? floor_remainder(*a, *b) : floor_quotient(*a, *b);
    case Kind::max: return std::max(*a, *b);
    case Kind::min: return std::min(*a, *b);
    case Kind::symbol:
    case Kind::sum: break;
  }
  return std::nullopt;
}

}  // namespace tenon
