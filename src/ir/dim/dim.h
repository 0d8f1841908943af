// Dim: a symbolic size. The handle itself holds a constant; any other size is an index into a DimTable, which
// hash-conses expressions in a normal form, so that equal sizes have equal handles.
//
// Normal form: a sum of terms, each an integer times a product of atoms (sorted); an atom is a symbol, or a floor
// division, remainder, max or min of normal forms. N*2+N is 3*N, (N+1)*M is M*N+M, (4*N)//4 is N, (4*N+8)%4 is 0.
// A size that does not fit int64, or whose expression is too large to keep, is the single Dim overflow().
// Every operation on overflow() gives overflow(), and it has no value. Simplification assumes the facts
// (set_range, set_equal) and that no divisor is zero; eval checks divisors, and the runtime checks the facts.
// Tables only grow. Graphs of one owner may share a table; a table has no lock. src/ir/dim/facts.cc implements
// the facts. Tested by tests/unit/ir/dim_test.cc.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/base/status.h"

namespace tenon {

class Lexer;  // src/base/text.h

struct Dim {
  int64_t bits = 0;

  constexpr Dim() = default;
  constexpr Dim(int64_t constant) : bits(constant) {}
  constexpr bool is_const() const { return bits >= kLowestConst; }
  constexpr int64_t value() const { return bits; }  // of a constant
  friend constexpr bool operator==(Dim, Dim) = default;
  friend constexpr auto operator<=>(Dim a, Dim b) { return a.bits <=> b.bits; }

  static constexpr int64_t kLowestConst = -(int64_t{1} << 62);
  // Whether a number can be a Dim: lower numbers would be taken for expressions.
  static constexpr bool fits(int64_t constant) { return constant >= kLowestConst; }
};

using Dims = std::vector<Dim>;
inline bool all_are(std::span<const Dim> sizes, Dim n) {
  return std::ranges::all_of(sizes, [n](Dim d) { return d == n; });
}

class DimTable {
 public:
  enum class Kind : uint8_t { symbol, sum, floor_div, mod, max, min };
  struct Term {
    int64_t factor;
    std::vector<Dim> atoms;  // sorted; empty: the constant term
    friend bool operator==(const Term&, const Term&) = default;
    friend std::strong_ordering operator<=>(const Term& a, const Term& b) {
      if (auto c = a.atoms <=> b.atoms; c != 0) return c;
      return a.factor <=> b.factor;
    }
  };
  struct Expr {
    Kind kind;
    std::string symbol;       // kind symbol
    std::vector<Term> terms;  // kind sum
    Dim a, b;                 // operands of the other kinds
    friend bool operator==(const Expr&, const Expr&) = default;
  };

  DimTable();

  // The name must be a name of the text form (is_name in src/base/text.h); src/api checks names that a host
  // gives.
  Dim symbol(std::string_view name);
  std::optional<Dim> find_symbol(std::string_view name) const;
  // Facts about a symbol: its inclusive range. The default is [0, 2^62). Sizes are simplified by the facts,
  // so eval must not get a value outside the range. A host's number that is no size may be negative; kLowest
  // stands for "any".
  void set_range(Dim symbol, int64_t low, int64_t high);
  std::pair<int64_t, int64_t> range(Dim symbol) const { return ranges_[symbol_number(symbol)]; }
  static constexpr int64_t kHighest = (int64_t{1} << 62) - 1;  // the default upper end
  static constexpr int64_t kLowest = Dim::kLowestConst;
  bool in_range(Dim symbol, int64_t value) const {
    const auto [low, high] = range(symbol);
    return (low == kLowest || low <= value) && (high == kHighest || value <= high);
  }

  // Records the fact a == b, which the runtime checks. From here on, sizes are written without the more
  // complicated of the two: after N//8 == M, N//8+1 is M+1. So record facts before the sizes that they
  // affect. Returns false and does nothing if a == b is impossible. An equality that already holds is not
  // recorded.
  bool set_equal(Dim a, Dim b);
  struct Equality {
    Dim a, b;
    friend bool operator==(const Equality&, const Equality&) = default;
  };
  const std::vector<Equality>& equalities() const { return equalities_; }
  // Whether a == b for all values of the symbols that the facts allow, or for none; nullopt if it depends or
  // is unknown.
  std::optional<bool> equal(Dim a, Dim b);

  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim floor_div(Dim a, Dim b);  // a constant divisor of 0 is the caller's bug: TENON_CHECK
  Dim mod(Dim a, Dim b);        // has the sign of the divisor, as in Python
  Dim max(Dim a, Dim b);
  Dim min(Dim a, Dim b);
  Dim ceil_div(Dim a, Dim b) { return floor_div(add(a, sub(b, Dim(1))), b); }
  // sum() and product() take many operands at once, so the table keeps no intermediate results.
  Dim sum(std::span<const Dim> plus, std::span<const Dim> minus = {});
  Dim product(std::span<const Dim> dims);
  Dim overflow();
  bool is_overflow(Dim d) const { return d.bits == INT64_MIN; }
  // Whether the handle is a constant or one of this table's expressions.
  bool valid(Dim d) const { return d.is_const() || index(d) < exprs_.size(); }

  // a / b if the facts show that b divides a; nullopt otherwise.
  std::optional<Dim> divide(Dim a, Dim b);
  // Bounds that follow from the facts; nullopt if unknown.
  std::optional<int64_t> lower_bound(Dim d) const { return bounds(d).low; }
  std::optional<int64_t> upper_bound(Dim d) const { return bounds(d).high; }

  std::string print(Dim d) const;
  std::string print(std::span<const Dim> dims) const;  // "N,4,2*M"
  std::string print_range(Dim symbol) const;           // "N in [1, inf]"
  // Parses an expression of + - * // % max(a,b) min(a,b) and parentheses; unknown names become symbols.
  Result<Dim> parse(std::string_view text);
  Result<Dim> parse(Lexer& lexer);  // reads the longest expression
  // The size of all expressions, about 32 bytes per unit. Text may use kMostInText of it, passes up to
  // kMostInTable; beyond that every result is overflow(). So no input makes a table exceed a few dozen
  // megabytes.
  uint64_t total_weight() const { return total_weight_; }
  static constexpr uint64_t kMostInText = 1 << 18, kMostInTable = 1 << 20;

  const Expr& expr(Dim d) const { return exprs_[index(d)]; }
  bool is_symbol(Dim d) const { return !d.is_const() && expr(d).kind == Kind::symbol; }
  // Symbols are numbered in order of appearance; `values` below is indexed by that number.
  int symbol_number(Dim symbol) const;
  int symbol_count() const { return static_cast<int>(symbols_.size()); }
  Dim symbol_at(int number) const { return symbols_[number]; }
  const std::string& symbol_name(Dim symbol) const { return expr(symbol).symbol; }
  void collect_symbols(Dim d, std::vector<Dim>& out) const;

  // The size at concrete symbol values; nullopt on overflow or division by zero.
  std::optional<int64_t> eval(Dim d, std::span<const int64_t> values) const;

 private:
  using Terms = std::vector<Term>;
  struct Bounds {
    std::optional<int64_t> low, high;
  };

  static size_t index(Dim d) { return static_cast<size_t>(d.bits) - static_cast<size_t>(INT64_MIN); }
  // An equality as a rewrite rule for terms: factor times atoms of `from` becomes the sum `to`.
  struct Rewrite {
    Term from;
    Terms to;
  };

  Dim intern(Expr e);
  static uint64_t hash_of(const Expr& e);
  std::optional<int64_t> find(const Expr& e, uint64_t hash) const;
  Dim atom(Expr e) { return from_terms({{1, {intern(std::move(e))}}}); }  // interned, with the facts applied
  Terms terms_of(Dim d) const;
  Dim from_terms(Terms terms);            // in any order, with repetition
  Dim floor_div_const(Dim a, int64_t b);  // b >= 1
  Dim mod_const(Dim a, int64_t b);
  Dim extremum(Kind kind, Dim a, Dim b);
  std::vector<Dim> flatten(Kind kind, Dim d) const;  // the operands of nested max or min
  bool never_less(Dim a, Dim b) const;               // a >= b by the facts
  Bounds bounds(Dim d) const;
  Bounds sum_bounds(const Terms& terms) const;
  struct Printed {
    std::string text;
    int level;  // 1 atom, 2 product, 3 sum or negative
    std::string inside(int highest) const { return level > highest ? "(" + text + ")" : text; }
  };
  // src/ir/dim/facts.cc
  bool apply_facts(Terms& terms) const;
  Dim again(Dim d);  // rebuilt with the facts known now
  bool add_rewrite(Dim zero);
  void add_remainders(const Terms& terms);
  void add_rewrites_of(Dim a, Dim b);
  bool occurs(Dim symbol, Dim d) const;
  uint64_t weight_of(const Term& term) const;
  Printed print_expr(Dim d) const;
  std::string print_sum(const Terms& terms) const;

  std::vector<Expr> exprs_;       // the first is overflow
  std::vector<uint32_t> weight_;  // size of the expression as a tree
  std::vector<uint32_t> depth_;
  uint64_t total_weight_ = 0;
  std::unordered_multimap<uint64_t, int64_t> ids_;  // by hash
  std::vector<Dim> symbols_;
  std::vector<std::pair<int64_t, int64_t>> ranges_;
  std::map<int64_t, int> symbol_numbers_;
  std::vector<Equality> equalities_;
  std::vector<Rewrite> rewrites_;
  size_t rewrites_made_ = 0;
};

// The symbols of many sizes, in order of appearance. Visits every expression once.
class SymbolsOf {
 public:
  explicit SymbolsOf(const DimTable& dims) : dims_(dims) {}
  void add(Dim d);
  void add(std::span<const Dim> dims) {
    for (Dim d : dims) add(d);
  }
  const std::vector<Dim>& list() const { return list_; }

 private:
  const DimTable& dims_;
  std::unordered_set<int64_t> seen_;
  std::vector<Dim> list_;
};

}  // namespace tenon
