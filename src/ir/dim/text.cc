// The text form of sizes, and its parser. Tested by tests/unit/ir/dim_test.cc.
#include <algorithm>

#include "src/base/text.h"
#include "src/ir/dim/dim.h"

namespace tenon {
namespace {

constexpr int kMaxNesting = 128;  // of parentheses

uint64_t magnitude(int64_t x) { return x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x); }

}  // namespace

// Terms are ordered by their text, not by handle, so that the text depends on names alone: positive terms
// first, the constant last, "N*M-K+1". A positive constant comes first if no other term is positive, "1-N".
std::string DimTable::print_sum(const Terms& terms) const {
  struct Piece {
    std::string text;
    int64_t factor;
  };
  std::vector<Piece> pieces;
  int64_t constant = 0;
  for (const Term& t : terms) {
    if (t.atoms.empty()) {
      constant = t.factor;
      continue;
    }
    std::vector<std::string> atoms;
    bool alone = t.atoms.size() == 1 && t.factor == 1;
    for (Dim atom : t.atoms) atoms.push_back(print_expr(atom).inside(alone ? 2 : 1));
    std::sort(atoms.begin(), atoms.end());
    std::string text;
    for (const std::string& atom : atoms) text += (text.empty() ? "" : "*") + atom;
    pieces.push_back({std::move(text), t.factor});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    if ((a.factor > 0) != (b.factor > 0)) return a.factor > 0;
    return a.text < b.text;
  });
  bool leads = constant > 0 && !pieces.empty() && pieces[0].factor < 0;
  std::string out = leads ? std::to_string(constant) : "";
  for (const Piece& p : pieces) {
    if (p.factor < 0)
      out += '-';
    else if (!out.empty())
      out += '+';
    if (p.factor != 1 && p.factor != -1) out += std::to_string(magnitude(p.factor)) + "*";
    out += p.text;
  }
  if (constant != 0 && !leads) out += (constant > 0 ? "+" : "") + std::to_string(constant);
  return out;
}

DimTable::Printed DimTable::print_expr(Dim d) const {
  if (d.is_const()) return {std::to_string(d.value()), d.value() < 0 ? 3 : 1};
  const Expr& e = expr(d);
  if (e.kind == Kind::symbol) return {e.symbol, 1};
  if (e.kind == Kind::sum) return {print_sum(e.terms), e.terms.size() == 1 && e.terms[0].factor > 0 ? 2 : 3};
  if (e.kind == Kind::floor_div) return {print_expr(e.a).inside(1) + "//" + print_expr(e.b).inside(1), 2};
  if (e.kind == Kind::mod) return {print_expr(e.a).inside(1) + "%" + print_expr(e.b).inside(1), 2};
  std::vector<std::string> operands;
  for (Dim side : flatten(e.kind, d)) operands.push_back(print(side));
  std::sort(operands.begin(), operands.end());
  std::string text;
  for (size_t i = 0; i + 1 < operands.size(); ++i)
    text += (e.kind == Kind::max ? "max(" : "min(") + operands[i] + ",";
  return {text + operands.back() + std::string(operands.size() - 1, ')'), 1};
}

std::string DimTable::print(Dim d) const { return print_expr(d).text; }

std::string DimTable::print(std::span<const Dim> dims) const {
  std::string out;
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? "," : "") + print(dims[i]);
  return out;
}

std::string DimTable::print_range(Dim symbol) const {
  const auto [low, high] = range(symbol);
  return print(symbol) + " in [" + (low == kLowest ? "-inf" : std::to_string(low)) + ", " +
         (high == kHighest ? "inf" : std::to_string(high)) + "]";
}

namespace {

// sum     = product { ("+" | "-") product }
// product = atom { ("*" | "//" | "%") atom }
// atom    = { "-" } (integer | symbol | ("max" | "min") "(" sum "," sum ")" | "(" sum ")")
class DimParser {
 public:
  DimParser(DimTable& dims, Lexer& lexer) : dims_(dims), lexer_(lexer) {}

  Result<Dim> sum() {
    std::vector<Dim> plus, minus;
    TENON_ASSIGN(plus.emplace_back(), product());
    while (lexer_.at("+") || lexer_.at("-")) {
      auto& side = lexer_.next().text == "+" ? plus : minus;
      TENON_ASSIGN(side.emplace_back(), product());
    }
    return plus.size() + minus.size() == 1 ? plus[0] : dims_.sum(plus, minus);
  }

 private:
  Result<Dim> product() {
    std::vector<Dim> factors;
    TENON_ASSIGN(factors.emplace_back(), atom());
    auto so_far = [&] { return factors.size() == 1 ? factors[0] : dims_.product(factors); };
    while (lexer_.at("*") || lexer_.at("//") || lexer_.at("%")) {
      Token sign = lexer_.next();
      TENON_ASSIGN(Dim right, atom());
      if (sign.text == "*") {
        factors.push_back(right);
        continue;
      }
      if (right == Dim(0)) return Lexer::error(sign, "size divided by zero");
      factors = {sign.text == "//" ? dims_.floor_div(so_far(), right) : dims_.mod(so_far(), right)};
    }
    return so_far();
  }

  Result<Dim> atom() {
    bool negative = false;
    while (lexer_.accept("-")) negative = !negative;
    TENON_ASSIGN(Dim d, unsigned_atom());
    return negative ? dims_.sub(Dim(0), d) : d;
  }

  Result<Dim> unsigned_atom() {
    const Token& t = lexer_.peek();
    if (t.kind == Token::Kind::integer) {
      if (t.integer > static_cast<uint64_t>(INT64_MAX)) return lexer_.error("size beyond 64 bits");
      return Dim(static_cast<int64_t>(lexer_.next().integer));
    }
    if (lexer_.at("(")) {
      TENON_TRY(enter("("));
      TENON_ASSIGN(Dim d, sum());
      TENON_TRY(leave());
      return d;
    }
    if (t.kind != Token::Kind::name) return lexer_.expected("a size");
    Token name = lexer_.next();
    if ((name.text == "max" || name.text == "min") && lexer_.at("(")) {
      TENON_TRY(enter("("));
      TENON_ASSIGN(Dim a, sum());
      TENON_TRY(lexer_.expect(","));
      TENON_ASSIGN(Dim b, sum());
      TENON_TRY(leave());
      return name.text == "max" ? dims_.max(a, b) : dims_.min(a, b);
    }
    return dims_.add(dims_.symbol(name.text), Dim(0));  // through a sum, so that the facts apply
  }

  Status enter(std::string_view open) {
    if (++depth_ > kMaxNesting) return lexer_.error("size nested too deeply");
    return lexer_.expect(open);
  }
  Status leave() {
    --depth_;
    return lexer_.expect(")");
  }

  DimTable& dims_;
  Lexer& lexer_;
  int depth_ = 0;
};

}  // namespace

Result<Dim> DimTable::parse(Lexer& lexer) {
  Token first = lexer.peek();
  TENON_ASSIGN(Dim d, DimParser(*this, lexer).sum());
  if (total_weight_ > kMostInText) return Lexer::error(first, "the sizes of one graph are too many to keep");
  if (is_overflow(d)) return Lexer::error(first, "size too large");
  return d;
}

Result<Dim> DimTable::parse(std::string_view text) {
  Lexer lexer(text);
  TENON_ASSIGN(Dim d, parse(lexer));
  if (!lexer.at_end()) return lexer.expected("the end of the size");
  return d;
}

}  // namespace tenon
