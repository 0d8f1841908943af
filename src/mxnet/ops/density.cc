// Rows of probability densities. A sample has the parameters' axes, and perhaps further axes behind them.
#include <algorithm>
#include <cmath>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace density_ops {
namespace {

// Formulas over values of one dtype.
struct Terms {
  explicit Terms(Call& call) : c(call), x(call.in[0]) {}
  Call& c;
  ValueId x;  // the sample
  // Parameter i, with axes of size 1 for those of the sample that it lacks.
  ValueId parameter(size_t i) const {
    Sizes shape = c.shape(c.in[i]);
    shape.resize(std::max(shape.size(), static_cast<size_t>(c.rank(x))), Dim(1));
    return c.reshape(c.in[i], shape);
  }
  ValueId number(double value) const { return c.like(x, value); }
  ValueId add(ValueId a, ValueId b) const { return c(ops::add, {a, b}); }
  ValueId sub(ValueId a, ValueId b) const { return c(ops::sub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) const { return c(ops::mul, {a, b}); }
  ValueId log(ValueId a) const { return c(ops::log, {a}); }
  ValueId lgamma(ValueId a) const { return c(ops::lgamma, {a}); }
  ValueId one_more(ValueId a) const { return add(a, number(1)); }
  ValueId one_less(ValueId a) const { return sub(a, number(1)); }
};

// The logarithm of a density as the body of a row.
template <ValueId (*logarithm)(const Terms&)>
Values density(Call& c) {
  const Terms t(c);
  const ValueId y = logarithm(t);
  return {c.a.flag("is_log") ? y : c(ops::exp, {y})};
}

ValueId uniform(const Terms& t) {
  const ValueId y = t.log(t.sub(t.parameter(2), t.parameter(1)));
  return t.c(ops::expand, {t.c(ops::neg, {y})}, {{"shape", t.c.shape(t.x)}});
}
ValueId normal(const Terms& t) {
  const ValueId sigma = t.parameter(2);
  const ValueId distance = t.c(ops::div, {t.sub(t.x, t.parameter(1)), sigma});
  const ValueId scale = t.add(t.log(sigma), t.number(0.5 * std::log(2 * M_PI)));
  return t.sub(t.mul(t.number(-0.5), t.c(ops::square, {distance})), scale);
}
ValueId gamma(const Terms& t) {
  const ValueId a = t.parameter(1), b = t.parameter(2);
  const ValueId power = t.add(t.mul(a, t.log(b)), t.mul(t.one_less(a), t.log(t.x)));
  return t.sub(t.sub(power, t.mul(b, t.x)), t.lgamma(a));
}
ValueId exponential(const Terms& t) {
  const ValueId rate = t.parameter(1);
  return t.sub(t.log(rate), t.mul(rate, t.x));
}
ValueId poisson(const Terms& t) {
  const ValueId rate = t.parameter(1);
  return t.sub(t.sub(t.mul(t.x, t.log(rate)), t.lgamma(t.one_more(t.x))), rate);
}
ValueId failures(const Terms& t, ValueId limit, ValueId p) {
  const ValueId ways = t.sub(t.sub(t.lgamma(t.add(t.x, limit)), t.lgamma(t.one_more(t.x))), t.lgamma(limit));
  const ValueId other = t.c(ops::log, {t.sub(t.number(1), p)});
  return t.add(ways, t.add(t.mul(limit, t.log(p)), t.mul(t.x, other)));
}
ValueId negative_binomial(const Terms& t) { return failures(t, t.parameter(1), t.parameter(2)); }
ValueId generalized(const Terms& t) {
  const ValueId mu = t.parameter(1), alpha = t.parameter(2);
  const ValueId p = t.c(ops::reciprocal, {t.one_more(t.mul(mu, alpha))});
  return failures(t, t.c(ops::reciprocal, {alpha}), p);
}

// The last axis of the sample and of alpha is that of one draw.
Values dirichlet(Call& c) {
  const Terms t(c);
  Sizes shape = c.shape(c.in[1]);
  if (shape.empty() || c.rank(t.x) < c.rank(c.in[1]))
    throw StatusError(invalid("alpha does not fit the sample"));
  const Dim last = shape.back();
  shape.pop_back();
  shape.resize(static_cast<size_t>(c.rank(t.x)) - 1, Dim(1));
  shape.push_back(last);
  const ValueId alpha = c.reshape(c.in[1], shape);
  auto sum = [&](ValueId v) { return c(ops::sum, {v}, {{"axes", Dims{Dim(-1)}}}); };
  const ValueId power = sum(t.mul(t.one_less(alpha), t.log(t.x)));
  const ValueId y = t.sub(t.add(power, t.lgamma(sum(alpha))), sum(t.lgamma(alpha)));
  return {c.a.flag("is_log") ? y : c(ops::exp, {y})};
}

constexpr Row row(std::string_view names, std::string_view operands, Values (*body)(Call&)) {
  return {.names = names, .operands = operands, .attrs = "is_log:bool=False", .body = body};
}

const Row kRows[] = {
    row("_random_pdf_uniform", "sample low high", density<uniform>),
    row("_random_pdf_normal", "sample mu sigma", density<normal>),
    row("_random_pdf_gamma", "sample alpha beta", density<gamma>),
    row("_random_pdf_exponential", "sample lam", density<exponential>),
    row("_random_pdf_poisson", "sample lam", density<poisson>),
    row("_random_pdf_negative_binomial", "sample k p", density<negative_binomial>),
    row("_random_pdf_generalized_negative_binomial", "sample mu alpha", density<generalized>),
    row("_random_pdf_dirichlet", "sample alpha", dirichlet),
};

}  // namespace
}  // namespace density_ops

std::span<const Row> density_rows() { return density_ops::kRows; }

}  // namespace tenon::mxnet
