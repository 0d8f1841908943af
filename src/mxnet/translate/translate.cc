// See translate.h.
#include "src/mxnet/translate/translate.h"

#include <map>
#include <unordered_set>

#include "src/base/text.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/mxnet/translate/infer.h"
#include "src/mxnet/translate/training.h"

namespace tenon::mxnet {
namespace {

// Names of values that are valid in Tenon's text and unique.
class Names {
 public:
  std::string unique(const std::string& given) {
    std::string name = given.substr(0, 1000);
    for (char& c : name)
      if (!is_name_char(c)) c = '_';
    if (name.empty() || !is_letter(name[0])) name = "_" + name;
    std::string candidate = name;
    for (int& i = next_[name]; !used_.insert(candidate).second;) candidate = name + "_" + std::to_string(++i);
    return candidate;
  }

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> next_;
};

// One per variable, in order; null: nothing is given.
Result<std::vector<const Given*>> match(const Symbol& symbol, std::span<const Given> given) {
  std::map<std::string_view, std::vector<const Given*>> by_name;
  for (const Given& one : given) by_name[one.name].push_back(&one);
  std::map<std::string_view, size_t> used;
  std::vector<const Given*> out;
  for (const uint32_t n : symbol.variables()) {
    const std::string& name = symbol.nodes[n].name;
    const auto it = by_name.find(name);
    const size_t k = it == by_name.end() ? 0 : used[name]++;
    out.push_back(it == by_name.end() || k >= it->second.size() ? nullptr : it->second[k]);
  }
  for (const auto& [name, list] : by_name) {
    if (used[name] >= list.size()) continue;
    Nearest nearest(name);
    for (const uint32_t n : symbol.variables()) nearest.offer(symbol.nodes[n].name);
    return invalid("the symbol has no variable '" + std::string(name.substr(0, 80)) + "'" + nearest.hint());
  }
  return out;
}

Status read_variable(const SymbolNode& node, const Given* given, bool np_shape, DimTable& dims,
                     Partial& type) {
  if (given && given->dims) {
    auto shape = parse_sizes(dims, *given->dims);
    if (!shape.ok()) return shape.status().at(node.describe() + ": dims \"" + *given->dims + "\"");
    type.shape = std::vector<Size>(shape->begin(), shape->end());
  } else if (const std::string* text = node.attr("__shape__")) {
    if (const auto tuple = read_attr_tuple(*text); tuple && !tuple->empty())
      type.shape = stated_shape(*tuple, np_shape);
  }
  if (given && given->dtype) {
    type.dtype = given->dtype;
  } else if (const std::string* text = node.attr("__dtype__")) {
    type.dtype = read_attr_dtype(*text);
  }
  return {};
}

class Translation {
 public:
  Translation(const Symbol& symbol, const Options& options)
      : symbol_(symbol), answers_(check(symbol, options)) {}

  Result<Graph> run(std::span<const Given> given, bool training) {
    for (size_t n = 0; n < answers_.size(); ++n)
      if (!answers_[n].status.ok()) return answers_[n].status.at(where(n));
    TENON_ASSIGN(const auto variables, match(symbol_, given));
    types_.resize(symbol_.nodes.size());
    size_t k = 0, outputs = 0;
    for (size_t n = 0; n < symbol_.nodes.size(); ++n) {
      const Answer& answer = answers_[n];
      types_[n].resize(answer.row && answer.row->outputs ? answer.row->outputs(*answer.attrs) : 1);
      outputs += types_[n].size();
      if (outputs > (1 << 17) + 16 * symbol_.nodes.size())
        return unsupported("the symbol's nodes have too many outputs");
      if (symbol_.nodes[n].is_variable())
        TENON_TRY(
            read_variable(symbol_.nodes[n], variables[k++], symbol_.is_np_shape, *graph_.dims, types_[n][0]));
    }
    TENON_TRY(infer_types(symbol_, answers_, graph_.dims, types_));
    if (training) TENON_TRY(check_dtypes_for_gradients());
    TENON_TRY(emit(variables));
    TENON_TRY(verify(graph_));
    return std::move(graph_);
  }

 private:
  std::string where(size_t n) const {
    return "node " + std::to_string(n) + " (" + symbol_.nodes[n].describe() + ")";
  }

  Status check_dtypes_for_gradients() const {
    for (size_t n = 0; n < symbol_.nodes.size(); ++n) {
      const SymbolNode& node = symbol_.nodes[n];
      if (node.is_variable()) continue;
      const Status status = check_gradient_dtypes(
          node, [&](size_t i) { return types_[node.inputs[i].node].at(node.inputs[i].output).dtype; },
          types_[n].size(), [&](size_t i) { return types_[n][i].dtype; });
      if (!status.ok()) return status.at(where(n));
    }
    return {};
  }

  Status emit(const std::vector<const Given*>& variables) {
    Builder builder(graph_);
    Names names;
    std::vector<Values> values(symbol_.nodes.size());
    size_t k = 0;
    for (const uint32_t n : symbol_.variables()) {
      const SymbolNode& node = symbol_.nodes[n];
      auto v = builder.try_input(names.unique(node.name), types_[n][0].type());
      if (!v.ok()) return v.status().at(where(n));
      graph_.inputs.back().param = variables[k] && variables[k]->param;
      ++k;
      graph_.node(*v).origin = node.name;
      values[n] = {*v};
    }
    for (size_t n = 0; n < symbol_.nodes.size(); ++n) {
      const SymbolNode& node = symbol_.nodes[n];
      if (node.is_variable()) continue;
      std::vector<ValueId> operands;
      for (const Entry& e : node.inputs) operands.push_back(values[e.node][e.output]);
      const size_t first = graph_.nodes.size();
      TENON_ASSIGN(values[n], emit_node(builder, symbol_, answers_[n], n, std::move(operands), types_[n]));
      for (size_t i = first; i < graph_.nodes.size(); ++i) graph_.nodes[i].origin = node.name;
      for (const ValueId v : values[n])
        if (v >= first && graph_.node(v).name.empty()) graph_.node(v).name = names.unique(node.name);
    }
    for (const Entry& e : symbol_.heads) graph_.outputs.push_back({values[e.node][e.output], std::nullopt});
    return {};
  }

  const Symbol& symbol_;
  const std::vector<Answer> answers_;
  Graph graph_;
  PartialTypes types_;
};

}  // namespace

Result<Graph> translate(const Symbol& symbol, const Options& options, std::span<const Given> given) {
  return Translation(symbol, options).run(given, options.training);
}

}  // namespace tenon::mxnet
