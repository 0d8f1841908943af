// The scalar definitions of map rows. Compares every math body with the row's eval in double, within the row's ulp, over all
// exponents, the row's domain and special values. Checks that every row has a spelling or a body for every dtype that it takes,
// and that integers, NaN and zeros behave as in PyTorch. Bodies run one operation at a time through the eval columns of the rows
// that they use.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "jit/kernel/kernel.h"
#include "src/base/convert.h"
#include "src/ir/builder.h"
#include "src/ops/rows/names.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// The permitted error of an f64 body in ulp, relative to the double of eval, which is itself within 1 ulp.
constexpr double kUlpF64 = 6;
// The same for special functions, whose polynomials cover wide intervals.
constexpr double kUlpF64Special = 32;

struct Number {
  DType type;
  double d = 0;   // floats, rounded to the type
  int64_t i = 0;  // integers and bools, wrapped to the type
};

int64_t wrap(int64_t v, DType t) {
  if (t == DType::b8) return v & 1;
  const int unused = 64 - 8 * size_of(t);
  return info(t).is_signed ? v << unused >> unused : v & (255 >> (8 - 8 * size_of(t)));
}
Number number(DType t, double d) { return {t, t == DType::f32 ? static_cast<float>(d) : d, 0}; }
Number integer(DType t, int64_t i) { return {t, 0, wrap(i, t)}; }
double as_double(const Number& n) { return is_float(n.type) ? n.d : static_cast<double>(n.i); }

DType result_type(const Op& row, DType last) {
  if (row.type == op(ops::random_bits).type) return DType::i32;
  return row.type == op(ops::lt).type ? DType::b8 : last;
}

// Applies the row's eval column to numbers. The class of types is that of the last operand.
Number evaluate(const Op& row, const std::vector<Number>& operands) {
  const DType type = operands.back().type, result = result_type(row, type);
  if (!is_float(type)) {
    int64_t x[3];
    for (size_t i = 0; i < operands.size(); ++i) x[i] = operands[i].i;
    return integer(result, row.eval_int(x));
  }
  double x[3];
  float narrow[3];
  for (size_t i = 0; i < operands.size(); ++i) narrow[i] = static_cast<float>(x[i] = as_double(operands[i]));
  const double value = type == DType::f32 && row.eval_f32 ? row.eval_f32(narrow) : row.eval(x);
  return is_float(result) ? number(result, value) : integer(result, value != 0);
}

std::string_view spelling(const Op& row, DType t) {
  return is_float(t) ? row.llvm.f : is_bool(t) ? row.llvm.b : info(t).is_signed ? row.llvm.s : row.llvm.u;
}

// A builder that computes a body while it is built.
class Direct final : public MathBuilder {
 public:
  uint32_t op(OpId id, std::initializer_list<uint32_t> operands) override {
    const Op& row = tenon::op(id);
    if (row.math && spelling(row, values[operands.end()[-1]].type).empty())
      return row.math(*this, {operands.begin(), operands.size()});
    std::vector<Number> x;
    for (uint32_t v : operands) x.push_back(values[v]);
    return add(evaluate(row, x));
  }
  uint32_t cast(uint32_t v, DType to) override {
    const Number x = values[v];
    if (is_float(to)) return add(number(to, as_double(x)));
    return add(integer(to, is_float(x.type) ? float_to_int<int64_t>(x.d) : x.i));
  }
  uint32_t bitcast(uint32_t v, DType to) override {
    const Number x = values[v];
    switch (to) {
      case DType::f32: return add({to, std::bit_cast<float>(static_cast<int32_t>(x.i)), 0});
      case DType::f64: return add({to, std::bit_cast<double>(x.i), 0});
      case DType::i32: return add({to, 0, std::bit_cast<int32_t>(static_cast<float>(x.d))});
      case DType::i64: return add({to, 0, std::bit_cast<int64_t>(x.d)});
      default: ADD_FAILURE() << "bitcast to " << name(to); return v;
    }
  }
  uint32_t constant(DType t, double value) override { return add(number(t, value)); }
  uint32_t constant_int(DType t, int64_t value) override { return add(integer(t, value)); }
  DType type_of(uint32_t v) const override { return values[v].type; }

  uint32_t add(Number n) {
    values.push_back(n);
    return static_cast<uint32_t>(values.size() - 1);
  }
  std::vector<Number> values;
};

Number run_body(const Op& row, const std::vector<Number>& operands) {
  Direct direct;
  std::vector<uint32_t> ids;
  for (const Number& n : operands) ids.push_back(direct.add(n));
  return direct.values[row.math(direct, ids)];
}

// The distance of `got` from `want` in units of the last place of the type. It is infinite if only one of them is NaN, or if they
// are zeros of different signs. A result that overflows counts as the number behind the largest.
double ulps(DType type, double got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : kInf;
  const bool f32 = type == DType::f32;
  const double rounded = f32 ? static_cast<float>(want) : want;
  if (got == rounded && (got == 0 || std::isinf(got)) && std::signbit(got) == std::signbit(rounded)) return 0;
  if (got == 0 && rounded == 0) return kInf;
  const int digits = f32 ? 24 : 53, largest = f32 ? 128 : 1024, smallest = f32 ? -125 : -1021;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (f32 && std::isfinite(want) && std::isinf(got))
      return std::fabs(std::copysign(std::ldexp(1.0, largest), got) - want) /
             std::ldexp(1.0, largest - digits);
    if (std::isinf(want) && !f32) return kInf;
    const double limit = std::ldexp(1.0, largest - 1);  // half of the limit, since 2^1024 is no double
    auto half = [&](double v) { return std::isinf(v) ? std::copysign(limit, v) : v / 2; };
    return std::fabs(half(got) - half(rounded)) / std::ldexp(1.0, largest - digits - 1);
  }
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent, smallest) - digits);
}

std::vector<double> special_values(DType type) {
  const bool f32 = type == DType::f32;
  std::vector<double> out = {0,
                             0.5,
                             1,
                             1.5,
                             2,
                             3,
                             10,
                             0.785398163397448,
                             1.5707963267949,
                             3.14159265358979,
                             1e5,
                             1e9,
                             kInf,
                             f32 ? 0x1p-149 : 0x1p-1074,
                             f32 ? 0x1.8p-127 : 0x1.8p-1023,
                             f32 ? 0x1p-126 : 0x1p-1022,
                             f32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023,
                             f32 ? 0x1.000002p0 : 0x1.0000000000001p0,
                             f32 ? 0x1.fffffep-1 : 0x1.fffffffffffffp-1,
                             f32 ? 0x1p24 : 0x1p53,
                             f32 ? 0x1.fffffep23 : 0x1.fffffffffffffp52};
  const size_t n = out.size();
  for (size_t i = 0; i < n; ++i) out.push_back(-out[i]);
  out.push_back(kNaN);
  return out;
}

// Every exponent with a few random mantissas, the row's domain, and the special values.
std::vector<double> samples(const Op& row, DType type, int per_exponent, int in_domain) {
  std::vector<double> out = special_values(type);
  std::mt19937_64 random(1);
  const bool f32 = type == DType::f32;
  for (int e = 0; e < (f32 ? 255 : 2047); ++e)
    for (int k = 0; k < 2 * per_exponent; ++k) {
      const uint64_t sign = k & 1, mantissa = random();
      if (f32)
        out.push_back(std::bit_cast<float>(
            static_cast<uint32_t>(sign << 31 | static_cast<uint64_t>(e) << 23 | mantissa >> 41)));
      else
        out.push_back(std::bit_cast<double>(sign << 63 | static_cast<uint64_t>(e) << 52 | mantissa >> 12));
    }
  std::uniform_real_distribution<double> domain(row.low, row.high);
  for (int i = 0; i < in_domain; ++i) out.push_back(number(type, domain(random)).d);
  return out;
}

struct Worst {
  double ulp = 0;
  std::string at;
  void see(const Op& row, const std::vector<Number>& x) {
    double operands[3], want;
    for (size_t i = 0; i < x.size(); ++i) operands[i] = x[i].d;
    want = row.eval(operands);
    const Number got = run_body(row, x);
    const double error = ulps(got.type, got.d, want);
    if (!(error > ulp)) return;
    ulp = error;
    char text[200];
    std::snprintf(text, sizeof(text), "%s(%a, %a): %a, not %a", std::string(row.name).c_str(), operands[0],
                  x.size() > 1 ? operands[1] : 0, got.d, want);
    at = text;
  }
};

constexpr int kDense = rounds(10);

class MathBody : public testing::TestWithParam<OpId> {};

TEST_P(MathBody, IsWithinTheRowsUlp) {
  const Op& row = op(GetParam());
  for (DType type : {DType::f32, DType::f64}) {
    Worst worst;
    if (row.arity == 1) {
      for (double x : samples(row, type, type == DType::f32 ? 2 * kDense : 1 + kDense / 5, 800 * kDense))
        worst.see(row, {number(type, x)});
    } else {
      const std::vector<double> special = special_values(type), any = samples(row, type, 1, 800 * kDense);
      for (double a : special)
        for (double b : special) worst.see(row, {number(type, a), number(type, b)});
      for (size_t i = 0; i < any.size(); ++i)
        worst.see(row, {number(type, any[i]), number(type, any[(i * 7919 + 5) % any.size()])});
    }
    const bool is_special = GetParam() >= ops::lgamma && GetParam() <= ops::lcm;
    EXPECT_LE(worst.ulp, type == DType::f32 ? std::max(row.ulp, 0.5)
                         : is_special       ? kUlpF64Special
                                            : kUlpF64)
        << name(type) << " " << worst.at;
  }
}

std::vector<OpId> rows_with_float_body() {
  std::vector<OpId> out;
  for (int id = 0; id < op_count(); ++id)
    if (const Op& row = op(static_cast<OpId>(id)); row.math && row.eval && row.llvm.f.empty())
      out.push_back(static_cast<OpId>(id));
  return out;
}
INSTANTIATE_TEST_SUITE_P(Rows, MathBody, testing::ValuesIn(rows_with_float_body()),
                         [](const auto& row) { return std::string(op(row.param).name); });

// The result dtype of a row on scalars; nothing if its type rule refuses.
std::optional<DType> scalar_result(OpId id, DType type) {
  Graph graph;
  Builder b(graph);
  std::vector<ValueId> operands;
  for (int i = 0; i < op(id).arity; ++i)
    operands.push_back(
        *b.try_input("x" + std::to_string(i), {id == ops::where && i == 0 ? DType::b8 : type, {}}));
  const auto node = b.try_add(id, operands);
  return node.ok() ? std::optional(graph.type(*node).dtype) : std::nullopt;
}

TEST(MapRows, EveryDTypeTakenHasCodeAndMeaning) {
  int seen = 0;
  for (OpId id = 0; id < ops::built_in_count; ++id) {
    const Op& row = op(id);
    if (row.kind != Kind::map || id == ops::cast || id == ops::bitcast) continue;
    for (int i = 0; i < kDTypeCount; ++i) {
      const DType type = static_cast<DType>(i);
      const auto result = scalar_result(id, type);
      if (!result) continue;
      ++seen;
      EXPECT_EQ(*result, result_type(row, type)) << row.name;
      EXPECT_TRUE(row.math || !spelling(row, type).empty() || jit::calls_host(row, type))
          << row.name << " has no code for " << name(type);
      EXPECT_TRUE(is_float(type) ? row.eval != nullptr : row.eval_int != nullptr)
          << row.name << " " << name(type);
    }
  }
  EXPECT_GT(seen, 300);
}

TEST(MapRows, IntegerPowerBodyIsExact) {
  for (DType type : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64})
    for (int64_t a : {0, 1, -1, 2, -2, 3, 7, -10, 127, -128})
      for (int64_t e : {0, 1, 2, 3, 5, 8, 31, 63, 127, -1, -2, -128}) {
        const std::vector<Number> x = {integer(type, a), integer(type, e)};
        EXPECT_EQ(run_body(op(ops::pow), x).i, evaluate(op(ops::pow), x).i)
            << name(type) << " " << a << "^" << e;
      }
}

// The known answers of Random123 for both words.
TEST(MapRows, PhiloxHasThePublishedAnswers) {
  struct {
    uint32_t counter[2], key, block[2];
  } constexpr kAnswers[] = {{{0, 0}, 0, {0xff1dae59, 0x6cd10df2}},
                            {{0xffffffff, 0xffffffff}, 0xffffffff, {0x2c3f628b, 0xab4fd7ad}},
                            {{0x243f6a88, 0x85a308d3}, 0x13198a2e, {0xdd7ce038, 0xf62a4c12}}};
  auto both = [](const uint32_t* words) { return static_cast<int64_t>(uint64_t{words[1]} << 32 | words[0]); };
  const Op& row = op(ops::philox);
  for (const auto& a : kAnswers)
    for (int64_t beyond : {int64_t{0}, int64_t{0x5eed} << 32}) {  // only the low half of the key matters
      const std::vector<Number> x = {integer(DType::i64, both(a.counter)),
                                     integer(DType::i64, beyond | a.key)};
      EXPECT_EQ(evaluate(row, x).i, both(a.block));
    }
}

double f(OpId id, std::initializer_list<double> x) { return op(id).eval(x.begin()); }
int64_t i(OpId id, DType type, std::initializer_list<int64_t> x) {
  std::vector<Number> operands;
  for (int64_t v : x) operands.push_back(integer(type, v));
  return evaluate(op(id), operands).i;
}
void expect_same(double got, double want) {
  EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want))
      << got << ", not " << want;
}

TEST(MapRows, NaNWins) {
  for (OpId id : {ops::maximum, ops::minimum}) {
    expect_same(f(id, {kNaN, 1}), kNaN);
    expect_same(f(id, {1, kNaN}), kNaN);
  }
  expect_same(f(ops::clamp, {kNaN, 0, 1}), kNaN);
  expect_same(f(ops::clamp, {2, kNaN, 1}), kNaN);
  expect_same(f(ops::clamp, {2, 0, kNaN}), kNaN);
  expect_same(f(ops::clamp, {0.5, 3, 1}), 1);  // high takes precedence over low
  expect_same(f(ops::sign, {kNaN}), 0);
  expect_same(f(ops::ne, {kNaN, kNaN}), 1);
  expect_same(f(ops::logical_and, {kNaN, kNaN}), 1);
}

TEST(MapRows, FloatDivisionFollowsTheSigns) {
  expect_same(f(ops::floor_div, {-7, 2}), -4);
  expect_same(f(ops::floor_div, {5, -kInf}), -1);
  expect_same(f(ops::floor_div, {5, kInf}), 0);
  expect_same(f(ops::floor_div, {1, 0}), kInf);
  expect_same(f(ops::trunc_div, {-7, 2}), -3);
  expect_same(f(ops::remainder, {-7, 2}), 1);
  expect_same(f(ops::remainder, {7, -2}), -1);
  expect_same(f(ops::remainder, {-5, kInf}), kInf);
  expect_same(f(ops::fmod, {-7, 2}), -1);
  expect_same(f(ops::fmod, {3, kInf}), 3);
  expect_same(f(ops::fmod, {1, 0}), kNaN);
  // The quotient rounds up to 3 in f32 but not in f64.
  const Number x[] = {number(DType::f32, 0x1.7ffffep1), number(DType::f32, 0x1.fffffep-1)};
  EXPECT_EQ(evaluate(op(ops::trunc_div), {x[0], x[1]}).d,
            std::trunc(static_cast<float>(x[0].d) / static_cast<float>(x[1].d)));
}

TEST(MapRows, PowersAndRounding) {
  expect_same(f(ops::pow, {0, 0}), 1);
  expect_same(f(ops::pow, {kNaN, 0}), 1);
  expect_same(f(ops::pow, {1, kNaN}), 1);
  expect_same(f(ops::pow, {-1, kInf}), 1);
  expect_same(f(ops::pow, {-8, 1.0 / 3}), kNaN);
  expect_same(f(ops::pow, {-0.0, -3}), -kInf);
  expect_same(f(ops::round, {2.5}), 2);
  expect_same(f(ops::round, {3.5}), 4);
  expect_same(f(ops::round, {-0.5}), -0.0);
  expect_same(f(ops::floor, {1e30}), 1e30);
  expect_same(f(ops::log, {0}), -kInf);
  expect_same(f(ops::log, {-1}), kNaN);
  expect_same(f(ops::rsqrt, {0}), kInf);
  expect_same(f(ops::atan2, {-0.0, -1}), -3.14159265358979311600);
  expect_same(f(ops::sin, {kInf}), kNaN);
}

// There is one rounding: a sum in double would first round to even and lose the last bit.
TEST(MapRows, FmaRoundsOnceInF32) {
  const double a = 1 + 0x1p-12, c = 0x1p-60;
  const Number once =
      evaluate(op(ops::fma), {number(DType::f32, a), number(DType::f32, a), number(DType::f32, c)});
  EXPECT_EQ(once.d, 1 + 0x1p-11 + 0x1p-23);
}

TEST(MapRows, IntegerDivisionNeverTraps) {
  for (DType type : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    const int64_t least = wrap(int64_t{1} << (8 * size_of(type) - 1), type);
    for (OpId id : {ops::floor_div, ops::trunc_div, ops::remainder, ops::fmod})
      EXPECT_EQ(i(id, type, {5, 0}), 0);
    for (OpId id : {ops::floor_div, ops::trunc_div}) EXPECT_EQ(i(id, type, {least, -1}), least);
    for (OpId id : {ops::remainder, ops::fmod}) EXPECT_EQ(i(id, type, {least, -1}), 0);
    EXPECT_EQ(i(ops::neg, type, {least}), least);
    EXPECT_EQ(i(ops::abs, type, {least}), least);
    EXPECT_EQ(i(ops::floor_div, type, {-7, 2}), -4);
    EXPECT_EQ(i(ops::floor_div, type, {7, -2}), -4);
    EXPECT_EQ(i(ops::trunc_div, type, {-7, 2}), -3);
    EXPECT_EQ(i(ops::remainder, type, {-7, 2}), 1);
    EXPECT_EQ(i(ops::remainder, type, {7, -2}), -1);
    EXPECT_EQ(i(ops::fmod, type, {-7, 2}), -1);
  }
  EXPECT_EQ(i(ops::neg, DType::u8, {1}), 255);
  EXPECT_EQ(i(ops::sub, DType::u8, {0, 1}), 255);
  EXPECT_EQ(i(ops::floor_div, DType::u8, {255, 2}), 127);
}

TEST(MapRows, ShiftsBeyondTheWidth) {
  for (DType type : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    const int width = 8 * size_of(type);
    for (int64_t amount :
         {static_cast<int64_t>(width), static_cast<int64_t>(width) + 1, int64_t{100}, int64_t{-1}}) {
      EXPECT_EQ(i(ops::shift_left, type, {-3, amount}), 0);
      EXPECT_EQ(i(ops::shift_right, type, {-3, amount}), -1);
      EXPECT_EQ(i(ops::shift_right, type, {3, amount}), 0);
    }
    EXPECT_EQ(i(ops::shift_right, type, {-8, 1}), -4);
    EXPECT_EQ(i(ops::shift_left, type, {1, width - 1}), wrap(int64_t{1} << (width - 1), type));
  }
  EXPECT_EQ(i(ops::shift_right, DType::u8, {255, 8}), 0);
  EXPECT_EQ(i(ops::shift_right, DType::u8, {255, 7}), 1);
  EXPECT_EQ(i(ops::shift_left, DType::u8, {1, 200}), 0);
}

TEST(MapRows, Bools) {
  EXPECT_EQ(i(ops::bit_not, DType::b8, {1}), 0);
  EXPECT_EQ(i(ops::bit_not, DType::b8, {0}), 1);
  EXPECT_EQ(i(ops::maximum, DType::b8, {0, 1}), 1);
  EXPECT_EQ(i(ops::minimum, DType::b8, {0, 1}), 0);
  EXPECT_EQ(i(ops::lt, DType::b8, {0, 1}), 1);
}

}  // namespace
}  // namespace tenon
