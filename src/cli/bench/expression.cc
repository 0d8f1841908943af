// See expression.h. Tested by tests/bench_test.py.
#include "src/cli/bench/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/base/text.h"
#include "src/ir/builder.h"
#include "src/ir/literals.h"
#include "src/ir/text.h"
#include "src/ops/rows/names.h"

namespace tenon::cli {
namespace {

// A value, or a number that has no dtype yet.
struct Operand {
  ValueId value = kNoValue;
  Scalar number = {};
  bool is_number() const { return value == kNoValue; }
};

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text)
      : lexer_(text), builder_(graph_), literals_(lexer_, *graph_.dims) {
    lexer_.comments(false);  // ';' separates statements
  }

  Status read_shapes(const std::vector<std::string>& shapes) {
    for (const std::string& entry : shapes) {
      const std::vector<std::string> parts = split(entry, ':');
      if (parts.size() < 2 || parts.size() > 4 || !is_name(parts[0]))
        return invalid("--shapes " + entry +
                       ": expected NAME:4x1024, NAME:4x1024:bf16 or NAME:4x1024:bf16:STRIDES");
      TensorType type;
      auto shape = sizes_of(parts[1]);
      if (!shape.ok()) return shape.status().at("--shapes " + entry);
      type.shape = *shape;
      if (parts.size() == 4) {
        auto strides = sizes_of(parts[3]);
        if (!strides.ok()) return strides.status().at("--shapes " + entry);
        if (strides->size() != shape->size())
          return invalid("--shapes " + entry + ": " + std::to_string(shape->size()) + " sizes, but " +
                         std::to_string(strides->size()) + " strides");
        strides_.emplace(parts[0], *strides);
      }
      if (parts.size() >= 3 && !parts[2].empty()) {
        Lexer lexer(parts[2]);
        auto dtype = LiteralParser(lexer, *graph_.dims).dtype();
        if (!dtype.ok()) return dtype.status().at("--shapes " + entry);
        type.dtype = *dtype;
      }
      if (!types_.emplace(parts[0], type).second) return invalid("--shapes names " + parts[0] + " twice");
    }
    return {};
  }

  Result<Graph> program() {
    for (;;) {
      const Lexer::Mark start = lexer_.mark();
      const Token name = lexer_.next();
      if (name.kind != Token::Kind::name || !lexer_.accept("=")) {
        lexer_.reset(start);
        break;
      }
      TENON_ASSIGN(const Operand value, expression());
      TENON_ASSIGN(const ValueId v, as_value(name, value, DType::f32));
      if (!values_.emplace(std::string(name.text), v).second)
        return Lexer::error(name, std::string(name.text) + " has a value already");
      unread_.emplace(name.text, name);
      if (std::string& own = graph_.nodes[v].name; own.empty()) own = name.text;
      TENON_TRY(lexer_.expect(";"));
    }
    do {
      const Token at = lexer_.peek();
      TENON_ASSIGN(const Operand value, expression());
      TENON_ASSIGN(const ValueId v, as_value(at, value, DType::f32));
      graph_.outputs.push_back({v, {}, {}});
    } while (lexer_.accept(","));
    if (!lexer_.at_end()) return lexer_.expected("an operator or the end");
    if (!unread_.empty())
      return Lexer::error(unread_.begin()->second, "nothing reads " + unread_.begin()->first);
    graph_.name = "expression";
    return std::move(graph_);
  }

 private:
  struct Binary {
    std::string_view token, op;
  };
  static std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts{""};
    for (const char c : text)
      if (c == at)
        parts.emplace_back();
      else
        parts.back() += c;
    return parts;
  }

  // Returns the sizes that a text such as "4x1024" lists.
  Result<Dims> sizes_of(std::string text) {
    std::ranges::replace(text, 'x', ',');
    return parse_sizes(*graph_.dims, text);
  }

  // An error about a number that the dtype lacks points at the token `at`.
  Result<ValueId> as_value(const Token& at, const Operand& operand, DType dtype) {
    if (!operand.is_number()) return operand.value;
    const double number = operand.number.as_double();
    if (!is_float(dtype) &&
        (number != std::floor(number) || number < lowest(dtype) || number > highest(dtype)))
      return Lexer::error(at, fmt::format("{} is no {}; cast the other operand, as in cast(x, dtype=f32)",
                                          number, name(dtype)));
    return builder_.try_add(ops::full, {}, {{"value", operand.number}, {"shape", Dims{}}, {"dtype", dtype}});
  }

  // Numbers take the dtype of the first operand that has one.
  Result<std::vector<ValueId>> as_values(const Token& at, const std::vector<Operand>& operands) {
    DType dtype = DType::f32;
    for (size_t i = operands.size(); i-- > 0;)
      if (!operands[i].is_number()) dtype = graph_.type(operands[i].value).dtype;
    std::vector<ValueId> values;
    for (const Operand& operand : operands) {
      TENON_ASSIGN(const ValueId v, as_value(at, operand, dtype));
      values.push_back(v);
    }
    return values;
  }

  Result<Operand> apply(const Token& at, std::string_view name, const std::vector<Operand>& operands,
                        std::vector<NamedAttr> attrs = {}) {
    const auto id = find_op(name);
    if (!id) {
      Nearest nearest(name);
      for (int i = 0; i < op_count(); ++i) nearest.offer(op(static_cast<OpId>(i)).name);
      return Lexer::error(at, "no op is called " + std::string(name) + nearest.hint());
    }
    for (const AttrSpec& spec : op(*id).attr_specs) {
      if (spec.fallback || (spec.name != "axis" && spec.name != "axes")) continue;
      bool given = false;
      for (const NamedAttr& attr : attrs) given = given || attr.name == spec.name;
      if (!given)
        attrs.push_back(
            {spec.name, spec.kind == AttrKind::ints ? AttrValue(Dims{Dim(-1)}) : AttrValue(Dim(-1))});
    }
    TENON_ASSIGN(std::vector<ValueId> values, as_values(at, operands));
    auto v = builder_.try_add(*id, std::move(values), std::move(attrs));
    if (!v.ok()) return Lexer::error(at, v.status().message());
    return Operand{*v};
  }

  Result<Operand> expression() {
    static constexpr Binary kComparisons[] = {{"<", "lt"}, {">", "gt"}, {"==", "eq"}};
    TENON_ASSIGN(Operand left, sum());
    for (const Binary& b : kComparisons) {
      const Token at = lexer_.peek();
      if (!lexer_.accept(b.token)) continue;
      const bool or_equal = b.token != "==" && lexer_.accept("=");
      TENON_ASSIGN(const Operand right, sum());
      return apply(at, or_equal ? (b.op == "lt" ? "le" : "ge") : b.op, {left, right});
    }
    return left;
  }

  Result<Operand> sum() {
    static constexpr Binary kSums[] = {{"+", "add"}, {"-", "sub"}};
    return chain(kSums, [this] { return product(); });
  }

  Result<Operand> product() {
    static constexpr Binary kProducts[] = {
        {"*", "mul"}, {"/", "div"}, {"//", "floor_div"}, {"%", "remainder"}, {"@", "matmul"}};
    return chain(kProducts, [this] { return unary(); });
  }

  template <size_t n, class Part>
  Result<Operand> chain(const Binary (&operators)[n], const Part& part) {
    TENON_ASSIGN(Operand left, part());
    for (;;) {
      const Token at = lexer_.peek();
      const Binary* found = nullptr;
      for (const Binary& b : operators)
        if (!found && lexer_.accept(b.token)) found = &b;
      if (!found) return left;
      TENON_ASSIGN(const Operand right, part());
      if (left.is_number() && right.is_number()) {
        TENON_ASSIGN(const double number,
                     folded(at, found->token, left.number.as_double(), right.number.as_double()));
        left.number = Scalar::of(number);
      } else {
        TENON_ASSIGN(left, apply(at, found->op, {left, right}));
      }
    }
  }

  // Computes an operator of two numbers.
  static Result<double> folded(const Token& at, std::string_view token, double a, double b) {
    if (token == "+") return a + b;
    if (token == "-") return a - b;
    if (token == "*") return a * b;
    if (token == "/") return a / b;
    return Lexer::error(at, "both operands of " + std::string(token) + " are numbers");
  }

  Result<Operand> unary() {
    if (++depth_ > kMostDepth) return lexer_.error("the expression is nested too deeply");
    auto result = at_depth();
    --depth_;
    return result;
  }

  Result<Operand> at_depth() {
    const Token at = lexer_.peek();
    if (lexer_.accept("-")) {
      TENON_ASSIGN(const Operand x, unary());
      if (x.is_number())
        return Operand{kNoValue, x.number.is_int ? Scalar::of(-x.number.i) : Scalar::of(-x.number.d)};
      return apply(at, "neg", {x});
    }
    TENON_ASSIGN(const Operand base, primary());
    const Lexer::Mark before = lexer_.mark();
    const Token power = lexer_.peek();
    if (!lexer_.accept("*")) return base;
    if (!lexer_.accept("*")) {
      lexer_.reset(before);
      return base;
    }
    TENON_ASSIGN(const Operand exponent, unary());
    return apply(power, "pow", {base, exponent});
  }

  Result<Operand> primary() {
    const Token token = lexer_.peek();
    if (token.kind == Token::Kind::integer || token.kind == Token::Kind::floating) {
      lexer_.next();
      const bool fits = token.kind == Token::Kind::integer && token.integer <= uint64_t{INT64_MAX};
      return Operand{kNoValue,
                     fits ? Scalar::of(static_cast<int64_t>(token.integer)) : Scalar::of(token.floating)};
    }
    if (lexer_.accept("(")) {
      TENON_ASSIGN(const Operand inner, expression());
      TENON_TRY(lexer_.expect(")"));
      return inner;
    }
    if (token.kind != Token::Kind::name) return lexer_.expected("a number, a name or '('");
    lexer_.next();
    return lexer_.accept("(") ? call(token) : variable(token);
  }

  Result<Operand> call(const Token& name) {
    std::vector<Operand> operands;
    std::vector<NamedAttr> attrs;
    const auto id = find_op(name.text);
    do {
      const Lexer::Mark start = lexer_.mark();
      const bool named = lexer_.next().kind == Token::Kind::name && lexer_.at("=");
      lexer_.reset(start);
      if (named && id) {
        TENON_TRY(literals_.attribute(op(*id), attrs));
      } else {
        TENON_ASSIGN(const Operand operand, expression());
        operands.push_back(operand);
      }
    } while (lexer_.accept(","));
    TENON_TRY(lexer_.expect(")"));
    return apply(name, name.text, operands, std::move(attrs));
  }

  Result<Operand> variable(const Token& token) {
    const std::string name(token.text);
    unread_.erase(name);
    if (const auto it = values_.find(name); it != values_.end()) return Operand{it->second};
    const auto type = types_.find(name);
    auto v = builder_.try_input(name, type == types_.end() ? TensorType{} : type->second);
    if (!v.ok()) return Lexer::error(token, v.status().message());
    if (const auto it = strides_.find(name); it != strides_.end()) graph_.inputs.back().strides = it->second;
    values_.emplace(name, *v);
    return Operand{*v};
  }

  static constexpr int kMostDepth = 500;

  int depth_ = 0;
  Lexer lexer_;
  Graph graph_;
  Builder builder_;
  LiteralParser literals_;
  std::map<std::string, TensorType> types_;
  std::map<std::string, Dims> strides_;
  std::map<std::string, ValueId> values_;
  std::map<std::string, Token> unread_;  // of names whose values nothing has read so far
};

}  // namespace

Result<Graph> parse_expression(std::string_view text, const std::vector<std::string>& shapes) {
  ExpressionParser parser(text);
  TENON_TRY(parser.read_shapes(shapes));
  return parser.program();
}

}  // namespace tenon::cli
