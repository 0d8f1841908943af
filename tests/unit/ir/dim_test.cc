// src/ir/dim: compares the normal form with plain evaluation; exact printing and parsing, bounds, overflow.
#include "src/ir/dim/dim.h"
#include "tests/support/sanitized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tenon {
namespace {

using testing::HasSubstr;

Dim read(DimTable& t, std::string_view text) {
  auto d = t.parse(text);
  EXPECT_TRUE(d.ok()) << text << ": " << d.status().message();
  return d.ok() ? *d : Dim(-12345);
}

// Each text, and the normal form that it prints as.
TEST(Dim, NormalForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"2+3*4", "14"},
      {"-7//2", "-4"},
      {"-7%3", "2"},
      {"7%-3", "-2"},
      {"max(3,5)-min(3,5)", "2"},
      {"N*2+N", "3*N"},
      {"N-N", "0"},
      {"N*0", "0"},
      {"N+M-N", "M"},
      {"(N+1)*M", "M+M*N"},
      {"(N+1)*(N-1)", "N*N-1"},
      {"N//1", "N"},
      {"N%1", "0"},
      {"N//N", "1"},
      {"0//N", "0"},
      {"N//-2", "(-N)//2"},
      {"(4*N)//4", "N"},
      {"(4*N+M)//4", "M//4+N"},
      {"(4*N+3)//4", "N"},
      {"(4*N+7)//4", "N+1"},
      {"(6*N+2)//4", "(3*N+1)//2"},
      {"(N//2)//3", "N//6"},
      {"(N//2+5)//3", "(N+4)//6+1"},
      {"(N*M+K)//M", "K//M+N"},
      {"(2*N*M)//(4*M)", "N//2"},
      {"(N*M+M)//(N+1)", "M"},
      {"(N*N-1)//(N-1)", "N+1"},
      {"(N%4)//4", "0"},
      {"(4*N+3)%4", "3"},
      {"(4*N+8)%4", "0"},
      {"(5*N+M)%4", "(M+N)%4"},
      {"(2*N)%4", "2*(N%2)"},
      {"(2*N+3)%4", "2*((N+1)%2)+1"},
      {"(N%8)%4", "N%4"},
      {"(N%4)%8", "N%4"},
      {"(N%8+M)%4", "(M+N)%4"},
      {"(N*M+K)%M", "K%M"},
      {"(N%M)%M", "N%M"},
      {"max(N,0)", "N"},
      {"max(N,-3)", "N"},
      {"min(N,0)", "0"},
      {"max(N,N+2)", "N+2"},
      {"max(max(N,1),max(M,2))", "max(2,max(M,N))"},
      {"max(N,M)-max(M,N)", "0"},
      {"min(N,min(N,M))", "min(M,N)"},
      {"max(N*M,0)", "M*N"},
      {"max(N-1,0)", "max(0,N-1)"},
      {"(N-1)//2+1", "(N+1)//2"},
      {"((N-1)//2+1-1)//2+1", "(N+3)//4"},
      {"1-N", "1-N"},
      {"-N", "-N"},
      {"-(N//4)", "-(N//4)"},
      {"M-N//4", "M-(N//4)"},
      {"3*(N//4)", "3*(N//4)"},
      {"N//4%3", "(N//4)%3"},
      {"N//(4%3+M)", "N//(M+1)"},
      {"N*(M//K)", "(M//K)*N"},
      {"5//N", "5//N"},
      {"-5//N", "(-5)//N"},
  };
  for (auto [text, normal] : cases) {
    DimTable t;
    EXPECT_EQ(t.print(read(t, text)), normal) << text;
  }
}

TEST(Dim, FactsSimplify) {
  DimTable t;
  Dim n = t.symbol("N");
  t.set_range(n, 4, 16);
  EXPECT_EQ(t.print(read(t, "max(N-4,0)")), "N-4");
  EXPECT_EQ(t.print(read(t, "min(N,16)")), "N");
  EXPECT_EQ(t.print(read(t, "max(N,3)")), "N");
  EXPECT_EQ(t.print(read(t, "N//32")), "0");
  EXPECT_EQ(t.print(read(t, "N%32")), "N");
  EXPECT_EQ(t.print(read(t, "(N-4)//(N+1)")), "0");
  EXPECT_EQ(t.lower_bound(read(t, "2*N-3")), 5);
  EXPECT_EQ(t.upper_bound(read(t, "2*N-3")), 29);
  EXPECT_EQ(t.lower_bound(read(t, "3-N*N")), -253);
  EXPECT_EQ(t.upper_bound(read(t, "N*M")), std::nullopt);
  EXPECT_EQ(t.lower_bound(read(t, "N*M")), 0);
}

// Facts, then texts and what they print as under these facts.
TEST(Dim, BoundsOfQuotients) {
  DimTable t;
  t.set_range(t.symbol("N"), 1, INT64_MAX);
  EXPECT_EQ(t.upper_bound(read(t, "N-2*(N//2)")), 1);
  EXPECT_EQ(t.lower_bound(read(t, "N-2*(N//2)")), 0);
  EXPECT_EQ(t.upper_bound(read(t, "N-2-2*(N//2)")), -1);
  EXPECT_EQ(t.upper_bound(read(t, "N-2-2*((3*N)//4)")), -1);
  EXPECT_EQ(t.lower_bound(read(t, "3*((N+4)//5)-N//2")), 1);
  EXPECT_GT(t.upper_bound(read(t, "N-2*(N//3)")), 1000);
  EXPECT_EQ(t.upper_bound(read(t, "(N//2)//3-N//6")), 0);
}

TEST(Dim, EqualitiesChangeTheNormalForm) {
  struct {
    std::vector<std::pair<const char*, const char*>> facts;
    const char *text, *normal;
  } cases[] = {
      {{{"N", "M"}}, "N-M", "0"},
      {{{"N//8-1", "7"}}, "N//8*2", "16"},
      {{{"N//8", "M"}}, "N//8+1", "M+1"},
      {{{"M", "2*N"}}, "M//2", "N"},
      {{{"(N//16)*(M//16)+1", "17"}}, "K*(M//16)*(N//16)", "16*K"},
      {{{"N%16", "0"}}, "16*(N//16)", "N"},
      {{{"N%16", "0"}}, "(N+K)%16", "(N+K)%16"},
      {{{"16*(N//16)", "N"}}, "N%16", "0"},
      {{{"(N+3)%4", "0"}}, "4*((N+3)//4)", "N+3"},
      {{{"N//2", "M"}, {"N%2", "0"}}, "N", "2*M"},
      {{{"N%2", "0"}, {"N//2", "M"}}, "N//2+N", "3*M"},
      {{{"N", "M"}, {"M", "8"}}, "N*K", "8*K"},
      {{{"N//2", "M+K"}, {"M", "2*L"}}, "(N//2)*2", "2*K+4*L"},
      {{{"N%(N//2)", "0"}, {"N//(N//2)", "2"}}, "N%2", "0"},
      {{{"N//(N//3)", "3"}, {"N%(N//3)", "0"}}, "3*(N//3)", "N"},
      {{{"max(N,M)", "N"}}, "max(M,N)+1", "N+1"},
      {{{"6*N", "9*M"}}, "2*N-3*M", "0"},
      {{{"N*M", "K"}}, "M*N//K", "1"},
      {{{"N", "N"}}, "N", "N"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    DimTable t;
    for (auto [a, b] : c.facts) EXPECT_TRUE(t.set_equal(read(t, a), read(t, b))) << a << " == " << b;
    EXPECT_EQ(t.print(read(t, c.text)), t.print(read(t, c.normal)));
    // Both sides of a fact are the same size from then on.
    for (auto [a, b] : c.facts) EXPECT_EQ(read(t, a), read(t, b)) << a << " == " << b;
  }
}

TEST(Dim, EqualAsFarAsIsKnown) {
  DimTable t;
  Dim n = t.symbol("N"), m = t.symbol("M");
  t.set_range(n, 4, 8);
  EXPECT_EQ(t.equal(n, n), true);
  EXPECT_EQ(t.equal(n, m), std::nullopt);
  EXPECT_EQ(t.equal(n, Dim(3)), false);
  EXPECT_EQ(t.equal(t.add(n, 1), n), false);
  EXPECT_EQ(t.equal(Dim(2), Dim(2)), true);
  EXPECT_EQ(t.equal(t.overflow(), n), std::nullopt);
  const Dim before = t.add(m, 1);
  EXPECT_FALSE(t.set_equal(n, 9));
  EXPECT_FALSE(t.set_equal(t.add(n, 1), n));
  EXPECT_TRUE(t.equalities().empty());
  EXPECT_TRUE(t.set_equal(n, m));
  EXPECT_EQ(t.equalities().size(), 1u);
  EXPECT_TRUE(t.set_equal(t.mul(n, 2), t.mul(m, 2)));  // follows from the first fact
  EXPECT_EQ(t.equalities().size(), 1u);
  EXPECT_EQ(t.equal(before, t.add(n, 1)), true);  // also for a size that is older than the fact
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(t.set_equal(t.overflow(), n));  // a fact without a rule is kept once
  EXPECT_EQ(t.equalities().size(), 2u);
}

TEST(Dim, Divide) {
  DimTable t;
  auto divide = [&](const char* a, const char* b) {
    auto d = t.divide(read(t, a), read(t, b));
    return d ? t.print(*d) : "no";
  };
  EXPECT_EQ(divide("12", "4"), "3");
  EXPECT_EQ(divide("12", "5"), "no");
  EXPECT_EQ(divide("12*N*M", "4*M"), "3*N");
  EXPECT_EQ(divide("N", "2"), "no");
  EXPECT_EQ(divide("N*M+M", "N+1"), "M");
  EXPECT_EQ(divide("N*M+1", "N+1"), "no");
  EXPECT_EQ(divide("0", "N"), "0");
  EXPECT_EQ(divide("N", "0"), "no");
  EXPECT_EQ(divide("4*(N//4)", "4"), "N//4");
  EXPECT_TRUE(t.set_equal(read(t, "N%6"), 0));
  EXPECT_EQ(divide("N", "6"), "N//6");
  EXPECT_EQ(divide("N", "4"), "no");
}

TEST(Dim, OverflowIsAValueThatAbsorbs) {
  DimTable t;
  Dim n = t.symbol("N"), big(int64_t{1} << 62);
  Dim over = t.mul(big, 4);
  EXPECT_TRUE(t.is_overflow(over));
  EXPECT_TRUE(t.is_overflow(t.add(INT64_MAX, 1)));
  EXPECT_EQ(t.sub(INT64_MAX, INT64_MAX), Dim(0));
  EXPECT_TRUE(t.is_overflow(t.sub(Dim::kLowestConst, 1)));
  EXPECT_TRUE(t.is_overflow(t.mul(t.mul(n, big), 4)));
  for (Dim d : {t.add(over, n), t.mul(over, 0), t.sub(over, over), t.floor_div(over, 2), t.mod(over, 2),
                t.max(over, n), t.min(n, over), t.floor_div(n, over), t.mod(n, over), t.ceil_div(over, 3)})
    EXPECT_TRUE(t.is_overflow(d));
  EXPECT_EQ(t.eval(over, {}), std::nullopt);
  EXPECT_EQ(t.lower_bound(over), std::nullopt);
  EXPECT_EQ(t.product(Dims{big, big, 0}), Dim(0));
  EXPECT_TRUE(t.is_overflow(t.product(Dims{big, big})));
  const int64_t values[] = {int64_t{1} << 40};
  EXPECT_EQ(t.eval(t.mul(n, n), values), std::nullopt);
  EXPECT_EQ(t.eval(t.floor_div(7, t.sub(n, int64_t{1} << 40)), values), std::nullopt);
  EXPECT_EQ(t.eval(t.symbol("M"), values), std::nullopt);
}

// Expressions that would grow without bound become overflow and do not exhaust time, stack or memory.
TEST(Dim, GrowthIsBounded) {
  DimTable t;
  Dim product(1), deep = t.symbol("N"), s = t.symbol("S"), wide = deep;
  for (int i = 0; i < 64; ++i) product = t.mul(product, t.add(t.symbol("X" + std::to_string(i)), 1));
  for (int i = 0; i < 100000; ++i) deep = t.add(t.floor_div(deep, s), 1);
  for (int i = 0; i < 64; ++i) wide = t.max(t.floor_div(wide, s), t.mod(wide, s));
  EXPECT_TRUE(t.is_overflow(product));
  EXPECT_TRUE(t.is_overflow(deep));
  EXPECT_TRUE(t.is_overflow(wide));
}

TEST(Dim, Symbols) {
  DimTable t;
  EXPECT_FALSE(t.find_symbol("N"));
  Dim n = t.symbol("N"), m = t.symbol("max");
  EXPECT_EQ(t.symbol("N"), n);
  EXPECT_EQ(t.find_symbol("N"), n);
  EXPECT_EQ(t.symbol_number(m), 1);
  EXPECT_EQ(t.symbol_name(t.symbol_at(1)), "max");
  EXPECT_TRUE(t.is_symbol(n));
  EXPECT_FALSE(t.is_symbol(t.add(n, 1)));
  EXPECT_FALSE(t.is_symbol(Dim(3)));
  std::vector<Dim> used;
  t.collect_symbols(read(t, "max(max,K//2)*K+3"), used);
  EXPECT_EQ(used.size(), 2u);
  EXPECT_THROW(t.symbol("a b"), InternalError);
  EXPECT_THROW(t.symbol_number(t.add(n, 1)), InternalError);
  EXPECT_THROW(t.set_range(n, 2, 1), InternalError);
  EXPECT_THROW(t.floor_div(n, 0), InternalError);
}

TEST(Dim, ParseErrors) {
  DimTable t;
  for (auto [text, why] : {std::pair("", "1:1: expected a size, found the end"),
                           {"N+", "1:3: expected a size"},
                           {"N M", "1:3: expected the end"},
                           {"(N", "expected ')'"},
                           {"max(N)", "expected ','"},
                           {"N//(M-M)", "1:2: size divided by zero"},
                           {"N%0", "divided by zero"},
                           {"1.5", "expected a size"},
                           {"9223372036854775808", "beyond 64 bits"},
                           {"9223372036854775807+N*0+1", "too large"}})
    EXPECT_THAT(t.parse(text).status().message(), HasSubstr(why)) << text;
  std::string nested(100000, '(');
  EXPECT_THAT(t.parse(nested).status().message(), HasSubstr("nested too deeply"));
  std::string signs(100001, '-');
  EXPECT_EQ(t.print(read(t, signs + "N")), "-N");
  EXPECT_EQ(t.print(Dims{t.symbol("N"), 4, t.mul(2, t.symbol("M"))}), "N,4,2*M");
}

// ---- random expressions ----

// An expression tree that is evaluated without the table. It has no value if a divisor is zero or a result exceeds 62 bits.
struct Tree {
  char op;  // 'n' number, 's' symbol, + - * / % M m
  int64_t number = 0;
  std::vector<Tree> sides;
};

constexpr int kSymbols = 3;
constexpr std::string_view kNames[] = {"N", "K", "M2"};

Tree random_tree(std::mt19937& random, int depth) {
  int pick = static_cast<int>(random() % (depth > 0 ? 12 : 2));
  if (pick == 0) return {'n', static_cast<int64_t>(random() % 12) - 3, {}};
  if (pick == 1) return {'s', static_cast<int64_t>(random() % kSymbols), {}};
  Tree t{"++-**//%%Mm" [(pick - 2) % 11], 0, {}};
  t.sides.push_back(random_tree(random, depth - 1));
  t.sides.push_back(random_tree(random, depth - 1));
  return t;
}

// Builds the tree in the table. Nothing if a divisor is the constant zero, which is a mistake of the caller.
std::optional<Dim> build(DimTable& t, const Tree& tree) {
  if (tree.op == 'n') return Dim(tree.number);
  if (tree.op == 's') return t.symbol(kNames[tree.number]);
  auto a = build(t, tree.sides[0]), b = build(t, tree.sides[1]);
  if (!a || !b) return std::nullopt;
  if ((tree.op == '/' || tree.op == '%') && *b == Dim(0)) return std::nullopt;
  switch (tree.op) {
    case '+': return t.add(*a, *b);
    case '-': return t.sub(*a, *b);
    case '*': return t.mul(*a, *b);
    case '/': return t.floor_div(*a, *b);
    case '%': return t.mod(*a, *b);
    case 'M': return t.max(*a, *b);
    default: return t.min(*a, *b);
  }
}

std::optional<int64_t> plain(const Tree& tree, const int64_t* values) {
  if (tree.op == 'n') return tree.number;
  if (tree.op == 's') return values[tree.number];
  auto a = plain(tree.sides[0], values), b = plain(tree.sides[1], values);
  if (!a || !b) return std::nullopt;
  __int128 x = *a, y = *b, out;
  switch (tree.op) {
    case '+': out = x + y; break;
    case '-': out = x - y; break;
    case '*': out = x * y; break;
    case 'M': out = x > y ? x : y; break;
    case 'm': out = x < y ? x : y; break;
    default: {
      if (y == 0) return std::nullopt;
      __int128 q = x / y;
      if (q * y != x && (x < 0) != (y < 0)) --q;
      out = tree.op == '/' ? q : x - q * y;
    }
  }
  if (out > (int64_t{1} << 62) || out < -(int64_t{1} << 62)) return std::nullopt;
  return static_cast<int64_t>(out);
}

TEST(Dim, RandomExpressionsEvaluateAsWritten) {
  std::mt19937 random(3);
  int compared = 0, printed = 0, folded = 0;
  for (int round = 0; round < rounds(20000); ++round) {
    DimTable t, other;
    int64_t low[kSymbols], high[kSymbols];
    for (int i = 0; i < kSymbols; ++i) {
      low[i] = static_cast<int64_t>(random() % 4) - (round % 3 ? 0 : static_cast<int64_t>(random() % 12));
      high[i] = round % 2 ? low[i] + static_cast<int64_t>(random() % 6) : DimTable::kHighest;
      t.set_range(t.symbol(kNames[i]), low[i], high[i]);
    }
    for (int i = kSymbols; i-- > 0;) other.set_range(other.symbol(kNames[i]), low[i], high[i]);
    Tree tree = random_tree(random, 1 + round % 5);
    auto d = build(t, tree);
    if (!d || t.is_overflow(*d)) continue;
    folded += d->is_const();
    std::string text = t.print(*d);
    // A reparse gives the same handle in the same table, and the same text in a table with another history.
    ASSERT_EQ(read(t, text), *d) << text;
    ASSERT_EQ(other.print(read(other, text)), text);
    ++printed;
    auto lowest = t.lower_bound(*d), highest = t.upper_bound(*d);
    for (int trial = 0; trial < 8; ++trial) {
      int64_t values[kSymbols];
      for (int i = 0; i < kSymbols; ++i)
        values[i] = low[i] + static_cast<int64_t>(random() % (std::min<int64_t>(high[i] - low[i], 40) + 1));
      auto expected = plain(tree, values);
      if (!expected) continue;
      ++compared;
      auto got = t.eval(*d, values);
      ASSERT_EQ(got, expected) << text << " with N=" << values[0] << " K=" << values[1]
                               << " M2=" << values[2];
      ASSERT_LE(lowest.value_or(*expected), *expected) << text;
      ASSERT_GE(highest.value_or(*expected), *expected) << text;
    }
  }
  EXPECT_GT(printed, rounds(15000));
  EXPECT_GT(compared, rounds(80000));
  EXPECT_LT(folded, printed / 2);
}

// Numbers of the host that are no sizes: of any sign and without bounds.
TEST(Dim, RandomExpressionsOfAnySign) {
  std::mt19937 random(5);
  int compared = 0;
  for (int round = 0; round < rounds(10000); ++round) {
    DimTable t;
    for (int i = 0; i < kSymbols; ++i)
      t.set_range(t.symbol(kNames[i]), DimTable::kLowest, DimTable::kHighest);
    Tree tree = random_tree(random, 1 + round % 4);
    auto d = build(t, tree);
    if (!d || t.is_overflow(*d)) continue;
    auto lowest = t.lower_bound(*d), highest = t.upper_bound(*d);
    for (int trial = 0; trial < 8; ++trial) {
      int64_t values[kSymbols];
      for (int64_t& v : values) v = static_cast<int64_t>(random() % 41) - 20;
      auto expected = plain(tree, values);
      if (!expected) continue;
      ++compared;
      ASSERT_EQ(t.eval(*d, values), expected) << t.print(*d);
      ASSERT_LE(lowest.value_or(*expected), *expected) << t.print(*d);
      ASSERT_GE(highest.value_or(*expected), *expected) << t.print(*d);
    }
  }
  EXPECT_GT(compared, rounds(40000));
}

// Facts change normal forms but not values. At all values for which the facts hold, a size has the value of its original expression,
// and answers about divisibility and equality are right.
TEST(Dim, RandomExpressionsUnderFacts) {
  std::mt19937 random(7);
  int compared = 0, facts = 0, changed = 0, divided = 0;
  for (int round = 0; round < rounds(6000); ++round) {
    DimTable t, plainly;
    int64_t values[kSymbols];
    const int64_t low = round % 2 ? 0 : -6;
    for (int i = 0; i < kSymbols; ++i) {
      t.set_range(t.symbol(kNames[i]), low, DimTable::kHighest);
      plainly.set_range(plainly.symbol(kNames[i]), low, DimTable::kHighest);
      values[i] = low + static_cast<int64_t>(random() % 13);
    }
    // Facts that hold at these values, of the kinds that frameworks state.
    for (int k = 0; k < 3; ++k) {
      Tree left = random_tree(random, 1 + static_cast<int>(random() % 2)), right = random_tree(random, 1);
      auto x = plain(left, values), y = plain(right, values);
      if (!x || !y) continue;
      Tree number{'n', *x - *y, {}}, sum{'+', 0, {right, number}};
      auto a = build(t, left), b = build(t, k ? sum : Tree{'n', *x, {}});
      if (a && b && !t.is_overflow(*a) && !t.is_overflow(*b)) {
        ASSERT_TRUE(t.set_equal(*a, *b));
      }
    }
    facts += static_cast<int>(t.equalities().size());
    for (auto [a, b] : t.equalities()) {
      const auto x = t.eval(a, values), y = t.eval(b, values);
      if (x && y) {
        ASSERT_EQ(x, y) << t.print(a) << " == " << t.print(b);
      }
    }
    for (int k = 0; k < 4; ++k) {
      Tree tree = random_tree(random, 1 + k), other = random_tree(random, 1);
      auto d = build(t, tree), same = build(plainly, tree), by = build(t, other);
      auto expected = plain(tree, values), factor = plain(other, values);
      if (!d || !same || t.is_overflow(*d) || !expected) continue;
      // Divisors that are 0 only at other values do no harm here.
      const auto got = t.eval(*d, values);
      ASSERT_EQ(got, expected) << t.print(*d) << ", without facts " << plainly.print(*same);
      ++compared;
      changed += t.print(*d) != plainly.print(*same);
      ASSERT_LE(t.lower_bound(*d).value_or(*expected), *expected) << t.print(*d);
      ASSERT_GE(t.upper_bound(*d).value_or(*expected), *expected) << t.print(*d);
      if (!by || t.is_overflow(*by) || !factor) continue;
      if (auto equal = t.equal(*d, *by)) {
        ASSERT_EQ(*equal, *expected == *factor) << t.print(*d) << " against " << t.print(*by);
      }
      if (auto q = t.divide(*d, *by); q && *factor != 0) {
        ++divided;
        if (auto n = t.eval(*q, values)) {
          ASSERT_EQ(*n * *factor, *expected) << t.print(*d) << " by " << t.print(*by);
        }
      }
    }
  }
  EXPECT_GT(facts, rounds(4000));
  EXPECT_GT(compared, rounds(12000));
  EXPECT_GT(changed, compared / 20);
  EXPECT_GT(divided, rounds(200));
}

}  // namespace
}  // namespace tenon
