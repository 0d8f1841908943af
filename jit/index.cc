// See index.h. Tested by tests/golden_test.cc, tests/run_test.cc.
#include "jit/index.h"

#include <algorithm>

namespace tenon::jit {

const IndexTerm* Index::find_axis(uint32_t axis) const {
  for (const IndexTerm& t : terms)
    if (!t.dynamic && t.id == axis) return &t;
  return nullptr;
}

Index IndexMath::axis(uint32_t id) const {
  if (axes_[id].extent == Dim(1)) return {{}, axes_[id].start};
  return {{{Dim(1), false, id}}, axes_[id].start};
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

// Writes a number given as a sum of coef*axis as digits in the mixed radix `dims`: every term must lie within one
// digit. A term that crosses a digit boundary asks for its axis to be split there.
bool IndexMath::digits(const Index& linear, const Dims& dims, Indices* out, Request* request) const {
  const size_t n = dims.size();
  std::vector<Index> digit(n);
  Dims strides = dense_strides(dims_, dims);
  for (const IndexTerm& t : linear.terms) {
    bool placed = false;
    for (size_t k = 0; k < n && !placed; ++k) {
      auto factor = dims_.divide(t.coef, strides[k]);
      if (!factor) continue;
      Dim above = k == 0 ? Dim(0) : strides[k - 1];  // the next larger digit's weight
      Dim reach = t.dynamic ? Dim(0) : dims_.mul(t.coef, axes_[t.id].extent);
      bool fits = k == 0 || (!t.dynamic && (reach == above || dims_.divide(above, reach).has_value()));
      if (!fits && !t.dynamic && reach.is_const() && above.is_const() && reach.value() <= above.value())
        fits = true;
      if (fits) {
        digit[k] = add(digit[k], Index{{{*factor, t.dynamic, t.id}}, Dim(0)});
        placed = true;
        break;
      }
      if (t.dynamic) break;
      // Crosses into the digit above: split the axis where its weight reaches `above`.
      auto inner = dims_.divide(above, t.coef);
      if (inner && dims_.divide(axes_[t.id].extent, *inner)) {
        *request = {Request::Kind::split, t.id, *inner, {}, {}};
        return false;
      }
      break;
    }
    if (!placed) {
      *request = {
          Request::Kind::decline, 0, {}, {}, "a reshape does not align with the loops: " + dims_.print(dims)};
      return false;
    }
  }
  Dim rest = linear.offset;
  for (size_t k = 0; k < n && rest != Dim(0); ++k) {
    if (rest.is_const() && strides[k].is_const() && strides[k].value() > 0) {
      int64_t q = rest.value() / strides[k].value();
      digit[k] = shift(digit[k], Dim(q));
      rest = Dim(rest.value() - q * strides[k].value());
    } else if (auto q = dims_.divide(rest, strides[k])) {
      digit[k] = shift(digit[k], *q);
      rest = Dim(0);
    }
  }
  if (rest != Dim(0)) {
    *request = {
        Request::Kind::decline, 0, {}, {}, "an offset does not align with a reshape: " + dims_.print(dims)};
    return false;
  }
  // A digit may only stay below its radix if its terms do not carry: with an offset this is not guaranteed.
  if (linear.offset != Dim(0) && n > 1) {
    for (size_t k = 1; k < n; ++k) {
      if (digit[k].offset == Dim(0) || digit[k].terms.empty()) continue;
      Dim top = digit[k].offset;
      for (const IndexTerm& t : digit[k].terms)
        if (!t.dynamic) top = dims_.add(top, dims_.mul(t.coef, dims_.sub(axes_[t.id].extent, Dim(1))));
      auto room = dims_.lower_bound(dims_.sub(dims[k], dims_.add(top, Dim(1))));
      if (!room || *room < 0) {
        *request = {
            Request::Kind::decline, 0, {}, {}, "a shifted index crosses a reshape: " + dims_.print(dims)};
        return false;
      }
    }
  }
  *out = std::move(digit);
  return true;
}

bool IndexMath::reshape(const Dims& result, const Indices& at, const Dims& operand, Indices* out,
                        Request* request) const {
  // Walk both shapes from the left; whenever the products of what was taken agree, that block maps onto itself.
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
      *request = {Request::Kind::decline,
                  0,
                  {},
                  {},
                  "a reshape from [" + dims_.print(operand) + "] to [" + dims_.print(result) +
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
