// parse: text to a kernel whose values are all defined, typed and named. Accepts any bytes. The result prints
// back to the same text (except for comments and spacing) and has the types that the op table gives, but only
// verify decides whether it is legal. Tested by tests/unit/jit/kernel/kernel_test.cc and tests/golden/jit/*.tn.
//
//   kernel   := "kernel" "@" NAME "(" [SIZE {"," SIZE}] {";" buffer {"," buffer}} ")" block
//   buffer   := ("in" | "out") VALUE ":" dtype | "local" VALUE ":" dtype "[" extent "]"
//   block    := "{" {statement} "}"
//   statement:= VALUE "=" OP VALUE {"," VALUE} ["fault" INT]
//             | VALUE "=" ("cast." | "bitcast.") dtype VALUE
//             | VALUE "=" "const." dtype NUMBER
//             | VALUE "=" "size" SIZE | VALUE "=" "index" VALUE | VALUE "=" "scan" OP VALUE
//             | VALUE "=" "load" place | "store" place "," VALUE
//             | ("par" | "for") axes block
//             | VALUE {"," VALUE} "=" "reduce" fold {"," fold} axes "{" {statement} "yield" VALUE {"," VALUE} "}"
//   fold     := [OP] OP
//   axes     := [axis {"," axis}] ["unroll" INT]        axis := ["simd"] VALUE "in" (extent | VALUE) ["by" extent], simd last only
//   extent   := INT | [INT "*"] SIZE
//   place    := VALUE "[" address "]"                   address := ["-"] term {("+" | "-") term}
//   term     := product of INT, SIZE, VALUE, each at most once and in this order; "0" alone is the empty sum
// VALUE is %name or %12; a name denotes one value in the whole kernel. Comments run from ; to the end of
// the line, except in the parentheses.
#include <unordered_map>

#include "jit/kernel/kernel.h"
#include "src/base/text.h"

namespace tenon::jit {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Result<Kernel> parse() {
    TENON_TRY(header());
    TENON_TRY(lexer_.expect("{"));
    TENON_TRY(block(kernel_.body, nullptr, 0));
    if (!lexer_.at_end()) return lexer_.expected("the end of the text");
    return std::move(kernel_);
  }

 private:
  Status header() {
    TENON_TRY(lexer_.expect("kernel"));
    TENON_TRY(lexer_.expect("@"));
    lexer_.comments(false);
    TENON_ASSIGN(kernel_.name, lexer_.name("a kernel name"));
    TENON_TRY(lexer_.expect("("));
    if (!lexer_.at(";") && !lexer_.at(")")) {
      do {
        Token at = lexer_.peek();
        TENON_ASSIGN(std::string_view name, lexer_.name("a size name"));
        if (!sizes_.emplace(name, kernel_.sizes.size()).second)
          return Lexer::error(at, "size " + std::string(name) + " is named twice");
        kernel_.sizes.emplace_back(name);
      } while (lexer_.accept(","));
    }
    while (lexer_.accept(";")) {
      do TENON_TRY(buffer());
      while (lexer_.accept(","));
    }
    if (!lexer_.at(")")) return lexer_.expected("')'");
    lexer_.comments(true);
    lexer_.next();
    return {};
  }

  Status buffer() {
    Buffer b;
    if (lexer_.accept("local"))
      b.role = Buffer::Role::local;
    else if (lexer_.accept("out"))
      b.role = Buffer::Role::out;
    else if (!lexer_.accept("in"))
      return lexer_.expected("in, out or local");
    Token at = lexer_.peek();
    TENON_ASSIGN(b.name, lexer_.value_name());
    if (!buffers_.emplace(b.name, kernel_.buffers.size()).second)
      return Lexer::error(at, "buffer %" + b.name + " is named twice");
    TENON_TRY(lexer_.expect(":"));
    Token type_at = lexer_.peek();
    TENON_ASSIGN(std::string_view type, lexer_.name("a dtype"));
    TENON_ASSIGN(b.type, dtype(type, type_at));
    if (b.role == Buffer::Role::local) {
      TENON_TRY(lexer_.expect("["));
      TENON_TRY(extent(b.length));
      TENON_TRY(lexer_.expect("]"));
    }
    kernel_.buffers.push_back(std::move(b));
    return {};
  }

  // Parses up to the closing brace. `reduce`: the statement whose body this is; the body must end with a
  // yield.
  Status block(Block& out, Stmt* reduce, int depth) {
    if (depth > kMaxLoopDepth)
      return lexer_.error("loops nested deeper than " + std::to_string(kMaxLoopDepth));
    while (!lexer_.accept("}")) {
      if (reduce && lexer_.accept("yield")) {
        TENON_TRY(values(reduce->yields));
        return lexer_.expect("}");
      }
      out.emplace_back();
      TENON_TRY(statement(out.back(), depth));
    }
    return reduce ? lexer_.error("a reduce ends with a yield") : Status();
  }

  Status statement(Stmt& s, int depth) {
    if (lexer_.accept("store")) {
      s.kind = Stmt::Kind::store;
      TENON_TRY(place(s));
      TENON_TRY(lexer_.expect(","));
      return value(s.args.emplace_back());
    }
    if (lexer_.at("par") || lexer_.at("for")) {
      s.kind = lexer_.next().text == "par" ? Stmt::Kind::par : Stmt::Kind::loop;
      TENON_TRY(axes(s));
      return block(s.body, nullptr, depth + 1);
    }
    if (!lexer_.at("%")) return lexer_.expected("a statement");
    struct Target {
      Token at;
      std::string name;
    };
    std::vector<Target> targets;
    do {
      targets.push_back({lexer_.peek(), {}});
      TENON_ASSIGN(targets.back().name, lexer_.value_name());
    } while (lexer_.accept(","));
    TENON_TRY(lexer_.expect("="));
    std::vector<DType> types;
    Token at = lexer_.peek();
    if (lexer_.accept("reduce")) {
      TENON_TRY(reduce(s, depth));
      for (Ref yield : s.yields) types.push_back(kernel_.types[yield]);
    } else {
      TENON_TRY(instruction(s));
      types.push_back(compute_type(s.type));
    }
    if (targets.size() != types.size())
      return Lexer::error(
          at, std::to_string(types.size()) + " results for " + std::to_string(targets.size()) + " names");
    for (size_t i = 0; i < targets.size(); ++i) {
      Ref ref = kNoRef;
      TENON_TRY(define(targets[i].at, targets[i].name, types[i], ref));
      if (s.kind == Stmt::Kind::reduce)
        s.results.push_back(ref);
      else
        s.result = ref;
    }
    return {};
  }

  Status reduce(Stmt& s, int depth) {
    s.kind = Stmt::Kind::reduce;
    bool online = false;
    do {
      s.online.push_back(kPlain);
      TENON_TRY(op_id(s.combine.emplace_back()));
      if (lexer_.peek().kind != Token::Kind::name || lexer_.at("simd") || lexer_.at("unroll")) continue;
      s.online.back() = s.combine.back();
      online = true;
      TENON_TRY(op_id(s.combine.back()));
    } while (lexer_.accept(","));
    if (!online) s.online.clear();
    TENON_TRY(axes(s));
    return block(s.body, &s, depth + 1);
  }

  // The right side of `%r =`, except for reduce. Sets s.type.
  Status instruction(Stmt& s) {
    Token at = lexer_.peek();
    TENON_ASSIGN(std::string_view word, lexer_.name("an op"));
    auto typed = [&](std::string_view prefix) { return word.substr(0, prefix.size()) == prefix; };
    if (typed("cast.") || typed("bitcast.") || typed("const.")) {
      s.kind = word[0] == 'b'   ? Stmt::Kind::bitcast
               : typed("cast.") ? Stmt::Kind::cast
                                : Stmt::Kind::constant;
      TENON_ASSIGN(s.type, dtype(word.substr(word.find('.') + 1), at));
      return s.kind == Stmt::Kind::constant ? literal(s.literal) : value(s.args.emplace_back());
    }
    if (word == "size") {
      s.kind = Stmt::Kind::size;
      s.type = DType::i64;
      return size(s.size);
    }
    if (word == "index") {
      s.kind = Stmt::Kind::index;
      s.type = DType::i64;
      return value(s.args.emplace_back());
    }
    if (word == "load") {
      s.kind = Stmt::Kind::load;
      TENON_TRY(place(s));
      s.type = compute_type(kernel_.buffers[s.buffer].type);
      return {};
    }
    if (word == "scan") {
      s.kind = Stmt::Kind::scan;
      TENON_TRY(op_id(s.op));
      TENON_TRY(value(s.args.emplace_back()));
      s.type = kernel_.types[s.args[0]];
      return {};
    }
    std::optional<OpId> id = find_op(word);
    if (!id) return unknown_op(at, word);
    s.op = *id;
    TENON_TRY(values(s.args));
    std::vector<DType> types;
    for (Ref arg : s.args) types.push_back(kernel_.types[arg]);
    Result<DType> type = scalar_result_type(s.op, types);
    if (!type.ok()) return Lexer::error(at, type.status().message());
    s.type = *type;
    if (lexer_.accept("fault")) {
      Token number = lexer_.peek();
      TENON_ASSIGN(int64_t fault, lexer_.integer());
      if (fault < 1 || fault > kMostFaults)
        return Lexer::error(number, "a fault's number is from 1 to " + std::to_string(kMostFaults));
      s.fault = static_cast<int>(fault);
    }
    return {};
  }

  Status axes(Stmt& s) {
    if (lexer_.at("%") || lexer_.at("simd")) {
      do {
        if (s.simd) return lexer_.error("only the last axis can be simd");
        s.simd = lexer_.accept("simd");
        Axis& axis = s.axes.emplace_back();
        Token at = lexer_.peek();
        TENON_ASSIGN(std::string_view name, lexer_.value_name());
        TENON_TRY(lexer_.expect("in"));
        if (lexer_.at("%"))
          TENON_TRY(value(axis.of));
        else
          TENON_TRY(extent(axis.extent));
        if (lexer_.accept("by")) {
          Token by = lexer_.peek();
          axis.by = {1, -1};
          TENON_TRY(extent(axis.by));
          if (axis.by.factor < 1) return Lexer::error(by, "a tile has at least one element");
        }
        TENON_TRY(define(at, std::string(name), DType::i64, axis.var));
      } while (lexer_.accept(","));
    }
    if (lexer_.accept("unroll")) {
      Token at = lexer_.peek();
      TENON_ASSIGN(int64_t unroll, lexer_.integer());
      if (unroll < 2 || unroll > 64) return Lexer::error(at, "unroll is from 2 to 64");
      s.unroll = static_cast<int>(unroll);
    }
    return lexer_.expect("{");
  }

  Status place(Stmt& s) {
    Token at = lexer_.peek();
    TENON_ASSIGN(std::string_view name, lexer_.value_name());
    auto found = buffers_.find(std::string(name));
    if (found == buffers_.end()) return Lexer::error(at, "unknown buffer %" + std::string(name));
    s.buffer = found->second;
    TENON_TRY(lexer_.expect("["));
    bool negative = lexer_.accept("-");
    do {
      TENON_TRY(term(s.address.emplace_back(), negative));
      negative = lexer_.at("-");
    } while (lexer_.accept("+") || lexer_.accept("-"));
    if (s.address.size() == 1 && s.address[0] == Term{0}) s.address.clear();
    return lexer_.expect("]");
  }

  Status term(Term& t, bool negative) {
    t.factor = negative ? -1 : 1;
    if (lexer_.peek().kind == Token::Kind::integer) {
      Token number = lexer_.next();
      if (number.integer > (uint64_t{1} << 63) - (negative ? 0 : 1))
        return Lexer::error(number, "factor out of range");
      t.factor = static_cast<int64_t>(negative ? 0 - number.integer : number.integer);
      if (!lexer_.accept("*")) return {};
    }
    if (!lexer_.at("%")) {
      TENON_TRY(size(t.size));
      if (!lexer_.accept("*")) return {};
    }
    return value(t.var);
  }

  Status extent(Extent& e) {
    if (lexer_.peek().kind == Token::Kind::integer || lexer_.at("-")) {
      TENON_ASSIGN(e.factor, lexer_.integer());
      if (!lexer_.accept("*")) return {};
    }
    return size(e.size);
  }

  Status literal(Scalar& out) {
    Lexer::Mark start = lexer_.mark();
    lexer_.accept("-");
    bool integer = lexer_.peek().kind == Token::Kind::integer;
    lexer_.reset(start);
    if (integer) {
      TENON_ASSIGN(int64_t i, lexer_.integer());
      out = Scalar::of(i);
    } else {
      TENON_ASSIGN(double d, lexer_.number());
      out = Scalar::of(d);
    }
    return {};
  }

  Status op_id(OpId& out) {
    Token at = lexer_.peek();
    TENON_ASSIGN(std::string_view word, lexer_.name("an op"));
    std::optional<OpId> id = find_op(word);
    if (!id) return unknown_op(at, word);
    out = *id;
    return {};
  }

  Status unknown_op(const Token& at, std::string_view word) {
    Nearest nearest(word);
    for (int id = 0; id < op_count(); ++id)
      if (op(static_cast<OpId>(id)).kind == tenon::Kind::map) nearest.offer(op(static_cast<OpId>(id)).name);
    return Lexer::error(at, "unknown op " + std::string(word) + nearest.hint());
  }

  static Result<DType> dtype(std::string_view word, const Token& at) {
    std::optional<DType> type = parse_dtype(word);
    if (!type) return Lexer::error(at, "unknown dtype " + std::string(word));
    return *type;
  }

  Status size(int& out) {
    Token at = lexer_.peek();
    TENON_ASSIGN(std::string_view name, lexer_.name("a size"));
    auto found = sizes_.find(std::string(name));
    if (found == sizes_.end()) return Lexer::error(at, "unknown size " + std::string(name));
    out = found->second;
    return {};
  }

  Status value(Ref& out) {
    Token at = lexer_.peek();
    TENON_ASSIGN(std::string_view name, lexer_.value_name());
    auto found = values_.find(std::string(name));
    if (found == values_.end()) return Lexer::error(at, "%" + std::string(name) + " is not defined yet");
    out = found->second;
    return {};
  }

  Status values(std::vector<Ref>& out) {
    do TENON_TRY(value(out.emplace_back()));
    while (lexer_.accept(","));
    return {};
  }

  Status define(const Token& at, const std::string& name, DType type, Ref& out) {
    out = kernel_.add_ref(type, name);
    if (!values_.emplace(name, out).second) return Lexer::error(at, "%" + name + " is defined twice");
    return {};
  }

  Lexer lexer_;
  Kernel kernel_;
  std::unordered_map<std::string, int> sizes_, buffers_;
  std::unordered_map<std::string, Ref> values_;
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text) { return Parser(text).parse(); }

}  // namespace tenon::jit
