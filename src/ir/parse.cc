// Reads the text form of a graph. This is the whole grammar, over the tokens of src/base/text.h:
//
//   file    = graph { group }
//   graph   = "graph" "@" NAME "(" [ input { "," input } ] ")" "{" { assume } { node } return "}"
//   input   = VALUE ":" type [ "strides" "=" sizes ] [ "param" ] [ "donated" ] [ "=" SYMBOL ]
//   assume  = "assume" SYMBOL "in" "[" ( INT | "-inf" ) "," ( INT | "inf" ) "]"     the symbol's range, both ends included
//           | "assume" "(" size "==" size ")"                            the two sizes are equal from there on
//   node    = VALUE "=" OP [ "(" [ VALUE { "," VALUE } ] ")" ] [ "{" [ attr { "," attr } ] "}" ] [ ":" type ] [ "@" INT ]
//   attr    = NAME "=" ( size | sizes | number | "true" | "false" | STRING | dtype | HEX )     as the op's row says
//   return  = "return" output { "," output }
//   output  = VALUE [ "strides" "=" sizes | "updates" VALUE ]            the updated VALUE is an input
//   group   = "group" INT "=" [ BACKEND ] STRING                         numbered 0, 1, 2, ...
//   type    = dtype sizes
//   sizes   = "[" [ size { "," size } ] "]"
//   size    = an expression over integers, symbols, + - * // % max(a,b) min(a,b) and parentheses (src/ir/dim/dim.h)
//   VALUE   = "%" and a name, or digits for an unnamed value, which printing renumbers
//
// Each assume, node, return and group is on lines of its own. Values are defined before they are used. The first use of a
// symbol declares it. Comments run from ; to the end of the line.
//
// The type of a node is a claim of the text's author. If the text claims, or the node needs, an equality of sizes that
// algebra cannot decide, the equality becomes an assumption of the graph, and the text is parsed once more with it.
//
// An error ends its line; parsing continues with the next line. The value of an erroneous line counts as broken, so that
// no error is reported for its users. Tested by tests/unit/ir/ir_test.cc and tests/golden/ir/*.tn.
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>

#include "src/base/text.h"
#include "src/ir/builder.h"
#include "src/ir/literals.h"
#include "src/ir/text.h"

namespace tenon {
namespace {

constexpr ValueId kBroken = kNoValue;
constexpr size_t kMaxEqualities = 256;  // graphs of frameworks have a few
const Dims kNoShape;

using Assumption = std::pair<std::string, std::string>;  // two equal sizes, as text

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), builder_(graph_), literals_(lexer_, *graph_.dims) {}

  // Reads the whole text, with these assumptions added.
  Result<Graph> file(std::span<const Assumption> more) {
    read_assumptions_ahead();
    for (const auto& [a, b] : more) {
      TENON_ASSIGN(const Dim left, graph_.dims->parse(a));
      TENON_ASSIGN(const Dim right, graph_.dims->parse(b));
      if (!graph_.dims->set_equal(left, right))
        return invalid("the types need " + a + " == " + b + ", which cannot be");
    }
    graph();
    while (!stopped_ && !lexer_.at_end())
      statement([&] { return lexer_.at("group") ? group() : lexer_.expected("a group or the end"); });
    if (!stopped_) {
      report_undefined();
      check_groups();
    }
    if (!errors_.empty()) return all_errors();
    return std::move(graph_);
  }

  // The further equalities that the types of the parsed graph need.
  std::vector<Assumption> needed(const DimTable& dims) const {
    std::vector<Assumption> texts;
    for (auto [a, b] : needed_) texts.emplace_back(dims.print(a), dims.print(b));
    return texts;
  }

 private:
  // ---- errors ----

  // Messages are "line:column: ...", as the lexer makes them. Parsing stops after kMaxErrors.
  void report(const Status& error) {
    if (static_cast<int>(errors_.size()) == kMaxErrors)
      stopped_ = true;
    else
      errors_.push_back(error);
  }
  void report(const Token& at, const std::string& message) { report(Lexer::error(at, message)); }

  Status all_errors() {
    auto place = [](const Status& error) {
      const std::string& text = error.message();
      std::pair<int, int> at;
      const char* rest = std::from_chars(text.data(), text.data() + text.size(), at.first).ptr;
      if (rest < text.data() + text.size()) std::from_chars(rest + 1, text.data() + text.size(), at.second);
      return at;
    };
    std::stable_sort(errors_.begin(), errors_.end(),
                     [&](const Status& a, const Status& b) { return place(a) < place(b); });
    // Unsupported only if all errors are.
    Code code = errors_[0].code();
    std::string text;
    for (const Status& error : errors_) {
      if (error.code() != Code::unsupported) code = Code::invalid;
      text += (text.empty() ? "" : "\n") + error.message();
    }
    return {code, text + (stopped_ ? "\ntoo many errors" : "")};
  }

  // Runs one statement. On an error, reports it and moves to the next line. A statement must end its line.
  template <class F>
  void statement(F&& read) {
    lexer_.begin_statement();
    Status status = read();
    if (status.ok() && !lexer_.at_end() && !lexer_.at("}") && lexer_.peek().line == lexer_.last_line())
      status = lexer_.expected("the end of the line");
    if (status.ok()) return;
    report(status);
    lexer_.skip_line(lexer_.last_line());
  }

  // ---- names ----

  Status define(const Token& at, std::string_view name, ValueId v) {
    auto [it, fresh] = values_.try_emplace(name, v);
    if (fresh) return {};
    return Lexer::error(at, "%" + std::string(name.substr(0, 80)) + " is defined twice");
  }

  // The value, or kBroken if the name is not defined before this line; the use is noted.
  Result<ValueId> value() {
    Token at = lexer_.peek();
    TENON_ASSIGN(std::string_view name, lexer_.value_name());
    auto it = values_.find(name);
    if (it != values_.end() && name != defining_) return it->second;
    undefined_.push_back({at, name});
    return kBroken;
  }

  void report_undefined() {
    constexpr size_t kMostHints = 10;  // each hint compares with all names
    for (const auto& [at, name] : undefined_) {
      if (stopped_) return;
      std::string shown = "%" + std::string(name.substr(0, 80));
      if (values_.contains(name)) {
        report(at, shown + " is used before it is defined: nodes stand in topological order, without cycles");
      } else if (!broken_header_) {
        Nearest nearest("%" + std::string(name));
        if (values_.size() <= 1000 && errors_.size() < kMostHints)
          for (const auto& [other, v] : values_) nearest.offer("%" + std::string(other));
        report(at, shown + " is not defined" + nearest.hint());
      }
    }
  }

  // ---- the graph ----

  Status strides(std::optional<Dims>& out) {
    if (!lexer_.accept("strides")) return {};
    TENON_TRY(lexer_.expect("="));
    TENON_ASSIGN(out, literals_.sizes());
    return {};
  }

  // Facts change the form of sizes, also in the header, which comes before the facts; so they are read first.
  void read_assumptions_ahead() {
    Lexer::Mark start = lexer_.mark();
    while (!lexer_.at_end() && !lexer_.at("{")) lexer_.next();
    lexer_.accept("{");
    while (lexer_.at("assume") && assume().ok()) {
    }
    lexer_.reset(start);
  }

  Status assume() {
    TENON_TRY(lexer_.expect("assume"));
    if (lexer_.accept("(")) return assume_equal();
    TENON_ASSIGN(std::string_view symbol, lexer_.name("a symbol or '('"));
    TENON_TRY(lexer_.expect("in"));
    TENON_TRY(lexer_.expect("["));
    Token at = lexer_.peek();
    int64_t low = DimTable::kLowest;
    Lexer::Mark number = lexer_.mark();
    if (!lexer_.accept("-") || !lexer_.accept("inf")) {
      lexer_.reset(number);
      TENON_ASSIGN(low, lexer_.integer());
    }
    TENON_TRY(lexer_.expect(","));
    int64_t high = DimTable::kHighest;
    if (!lexer_.accept("inf")) {
      TENON_ASSIGN(high, lexer_.integer());
    }
    TENON_TRY(lexer_.expect("]"));
    if (low > high) return Lexer::error(at, "empty range");
    if (graph_.dims->total_weight() > DimTable::kMostInText) return Lexer::error(at, "too many symbols");
    graph_.dims->set_range(graph_.dims->symbol(symbol), low, high);
    return {};
  }

  Status assume_equal() {
    const Token at = lexer_.peek();
    TENON_ASSIGN(const Dim a, literals_.size());
    TENON_TRY(lexer_.expect("=="));
    TENON_ASSIGN(const Dim b, literals_.size());
    TENON_TRY(lexer_.expect(")"));
    if (graph_.dims->equalities().size() >= kMaxEqualities) return Lexer::error(at, "too many assumptions");
    if (graph_.dims->set_equal(a, b)) return {};
    return Lexer::error(at, graph_.dims->print(a) + " and " + graph_.dims->print(b) + " cannot be equal");
  }

  void graph() {
    Status head = header_start();
    if (!head.ok()) {
      report(head);
      broken_header_ = true;
      skip_to_body();
    } else {
      header_inputs();
    }
    if (!lexer_.accept("{")) {
      if (!broken_header_) report(lexer_.expected("'{'"));
      broken_header_ = true;
      skip_to_body();
      if (!lexer_.accept("{")) return;
    }
    while (lexer_.at("assume")) statement([&] { return assume(); });
    bool returned = false;
    while (!stopped_ && !lexer_.at_end() && !lexer_.at("}")) {
      statement([&]() -> Status {
        if (returned) return lexer_.expected("'}' after return");
        if (!lexer_.at("return")) return node();
        returned = true;
        return outputs();
      });
    }
    if (stopped_) return;
    if (!returned) report(lexer_.peek(), "the graph has no return");
    if (lexer_.at_end()) report(lexer_.expected("'}'"));
    lexer_.accept("}");
  }

  Status header_start() {
    TENON_TRY(lexer_.expect("graph"));
    TENON_TRY(lexer_.expect("@"));
    TENON_ASSIGN(std::string_view name, lexer_.name("the graph's name"));
    graph_.name = name;
    return lexer_.expect("(");
  }

  void skip_to_body() {
    while (!lexer_.at_end() && !lexer_.at("{")) lexer_.next();
  }

  void header_inputs() {
    if (lexer_.accept(")")) return;
    while (true) {
      Status status = input();
      if (!status.ok()) {
        report(status);
        // Skips to the comma or parenthesis that ends this input.
        for (int depth = 0; !lexer_.at_end() && !lexer_.at("{"); lexer_.next()) {
          if (lexer_.at("[") || lexer_.at("(")) ++depth;
          if (depth == 0 && (lexer_.at(",") || lexer_.at(")"))) break;
          if (lexer_.at("]") || lexer_.at(")")) --depth;
        }
      }
      if (lexer_.accept(",")) continue;
      if (!lexer_.at("{") && !lexer_.accept(")")) {
        report(lexer_.expected("',' or ')'"));
        broken_header_ = true;
        skip_to_body();
      }
      return;
    }
  }

  Status input() {
    Token at = lexer_.peek();
    auto name = lexer_.value_name();
    if (!name.ok()) {
      broken_header_ = true;
      return name.status();
    }
    // The name counts as broken until the rest of the input has been read.
    TENON_TRY(define(at, *name, kBroken));
    TENON_TRY(lexer_.expect(":"));
    TENON_ASSIGN(TensorType type, literals_.type());
    std::string kept = is_name(*name) ? std::string(*name) : std::string();
    auto added = builder_.try_input(std::move(kept), std::move(type));
    if (!added.ok()) return Lexer::error(at, added.status().message());
    values_[*name] = *added;
    InputBinding& in = graph_.inputs.back();
    TENON_TRY(strides(in.strides));
    in.param = lexer_.accept("param");
    in.donated = lexer_.accept("donated");
    if (!lexer_.accept("=")) return {};
    TENON_ASSIGN(std::string_view symbol, lexer_.name("a symbol"));
    in.symbol = graph_.dims->symbol(symbol);
    return {};
  }

  Status node() {
    Token at = lexer_.peek();
    if (!lexer_.at("%")) return lexer_.expected("a node such as %y = add(%a, %b), or return");
    TENON_ASSIGN(std::string_view name, lexer_.value_name());
    TENON_TRY(define(at, name, kBroken));
    defining_ = name;
    Node n;
    if (is_name(name)) n.name = name;
    TENON_TRY(lexer_.expect("="));
    bool broken = false;
    std::optional<TensorType> stated;
    TENON_ASSIGN(Token type_at, node_body(n, broken, stated));
    if (broken) return {};
    Claim claim{stated ? stated->shape : kNoShape};
    auto added = builder_.try_add(std::move(n), stated ? &claim : nullptr);
    // The whole line was read, so parsing continues here.
    if (!added.ok()) {
      report(Status(added.status().code(), Lexer::error(at, added.status().message()).message()));
      return {};
    }
    values_[name] = *added;
    if (!stated) return {};
    if (accept(*stated, graph_.type(*added), claim)) {
      if (!claim.needed.empty()) graph_.nodes[*added].type = std::move(*stated);  // all is parsed again
      needed_.insert(needed_.end(), claim.needed.begin(), claim.needed.end());
    } else {
      report(type_at, "the text says " + graph_.print_type(*stated) + ", but " +
                          describe(graph_, graph_.node(*added)) + " has type " +
                          graph_.print_type(graph_.type(*added)));
    }
    return {};
  }

  // Whether the types may be equal. Adds the equalities that this needs to the claim.
  bool accept(const TensorType& stated, const TensorType& inferred, Claim& claim) {
    if (stated.dtype != inferred.dtype || stated.rank() != inferred.rank()) return false;
    for (size_t i = 0; i < stated.shape.size(); ++i) {
      const auto same = graph_.dims->equal(stated.shape[i], inferred.shape[i]);
      if (same == false) return false;
      if (!same) claim.needed.push_back({inferred.shape[i], stated.shape[i]});
    }
    return true;
  }

  // Reads the node after the equals sign. Returns the position of the type, if the text states one.
  Result<Token> node_body(Node& n, bool& broken, std::optional<TensorType>& stated) {
    Token op_at = lexer_.peek();
    TENON_ASSIGN(std::string_view op_name, lexer_.name("an op"));
    auto id = find_op(op_name);
    if (!id) {
      Nearest nearest(op_name);
      for (int i = 0; i < op_count(); ++i) nearest.offer(op(static_cast<OpId>(i)).name);
      broken = true;
      report(op_at, "unknown op '" + std::string(op_name.substr(0, 80)) + "'" + nearest.hint());
    }
    n.op = id.value_or(0);
    if (lexer_.accept("(") && !lexer_.accept(")")) {
      do {
        TENON_ASSIGN(ValueId v, value());
        broken |= v == kBroken;
        n.inputs.push_back(v);
      } while (lexer_.accept(","));
      TENON_TRY(lexer_.expect(")"));
    }
    // Without the row the attributes cannot be read, so the rest of the line is skipped.
    if (!id) {
      lexer_.skip_line(lexer_.last_line());
      return op_at;
    }
    std::vector<NamedAttr> given;
    if (lexer_.accept("{") && !lexer_.accept("}")) {
      do {
        TENON_TRY(literals_.attribute(op(*id), given));
      } while (lexer_.accept(","));
      TENON_TRY(lexer_.expect("}"));
    }
    Status filled = fill_attrs(op(*id), std::move(given), n.attrs);
    if (!filled.ok()) {
      broken = true;
      report(op_at, filled.message());
    }
    Token type_at = lexer_.peek();
    if (lexer_.accept(":")) {
      type_at = lexer_.peek();
      TENON_ASSIGN(stated, literals_.type());
    }
    if (lexer_.accept("@")) {
      Token group_at = lexer_.peek();
      TENON_ASSIGN(int64_t group, lexer_.integer());
      if (group < 0 || group > std::numeric_limits<int>::max())
        return Lexer::error(group_at, "no such group");
      n.group = static_cast<int>(group);
      group_uses_.emplace(n.group, group_at);
    }
    return type_at;
  }

  Status outputs() {
    defining_ = {};
    TENON_TRY(lexer_.expect("return"));
    do {
      TENON_ASSIGN(ValueId v, value());
      OutputBinding out{v, {}};
      TENON_TRY(strides(out.strides));
      if (lexer_.accept("updates")) TENON_TRY(updates(out));
      graph_.outputs.push_back(std::move(out));
    } while (lexer_.accept(","));
    return {};
  }

  Status updates(OutputBinding& out) {
    const Token at = lexer_.peek();
    TENON_ASSIGN(const ValueId v, value());
    const auto input = std::ranges::find(graph_.inputs, v, &InputBinding::value);
    if (input == graph_.inputs.end())
      return v == kBroken ? Status()
                          : Lexer::error(at, "an output updates an input, which this value is not");
    if (out.strides) return Lexer::error(at, "an output that updates an input has the strides of the input");
    out.updates = static_cast<int>(input - graph_.inputs.begin());
    out.strides = input->strides;
    return {};
  }

  Status group() {
    TENON_TRY(lexer_.expect("group"));
    Token at = lexer_.peek();
    TENON_ASSIGN(int64_t number, lexer_.integer());
    TENON_TRY(lexer_.expect("="));
    Group g;
    if (lexer_.peek().kind == Token::Kind::name) g.backend = lexer_.next().text;
    TENON_ASSIGN(g.why, lexer_.string());
    if (number != static_cast<int64_t>(graph_.groups.size()))
      return Lexer::error(
          at, "groups are listed in order: expected group " + std::to_string(graph_.groups.size()));
    graph_.groups.push_back(std::move(g));
    return {};
  }

  void check_groups() {
    auto known = static_cast<int>(graph_.groups.size());
    for (auto it = group_uses_.lower_bound(known); it != group_uses_.end(); ++it)
      report(it->second, "no such group " + std::to_string(it->first) + " after the graph");
  }

  struct Use {
    Token at;
    std::string_view name;
  };

  Lexer lexer_;
  Graph graph_;
  Builder builder_;
  LiteralParser literals_;
  std::vector<Status> errors_;
  std::unordered_map<std::string_view, ValueId> values_;
  std::vector<Use> undefined_;
  std::string_view defining_;        // the name that the current line defines
  std::map<int, Token> group_uses_;  // the first use of each group
  std::vector<DimTable::Equality> needed_;
  bool broken_header_ = false;  // inputs may be missing, so unknown names are not reported
  bool stopped_ = false;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text) {
  constexpr int kMaxRounds = 8;
  std::vector<Assumption> more;
  for (int round = 0; round < kMaxRounds; ++round) {
    Parser parser(text);
    auto graph = parser.file(more);
    if (!graph.ok()) return graph;
    const std::vector<Assumption> needed = parser.needed(*graph->dims);
    if (needed.empty()) return graph;
    more.insert(more.end(), needed.begin(), needed.end());
    if (more.size() > kMaxEqualities) break;
  }
  return unsupported("the types need " + more.back().first + " == " + more.back().second +
                     ", which cannot be shown");
}

}  // namespace tenon
