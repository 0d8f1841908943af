// See translate.h: check.
#include <algorithm>
#include <cctype>
#include <cstring>

#include "src/mxnet/table.h"
#include "src/mxnet/translate.h"

namespace tenon::mxnet {
namespace {

Status check_operands(const Row& row, const SymbolNode& node) {
  const auto [least, most] = operand_range(row);
  const size_t n = node.inputs.size();
  if (n >= least && n <= most) return {};
  return invalid("takes " + std::to_string(least) + (most == least ? "" : " or more") + " operands, given " +
                 std::to_string(n));
}

Status check_node(const SymbolNode& node, const Options& options, Answer& answer) {
  const auto& names = options.op_names;
  if (!names.empty() && std::find(names.begin(), names.end(), node.op) == names.end())
    return unsupported("the option op_names leaves it out");
  answer.row = find_row(node.op);
  if (!answer.row) return unsupported("Tenon does not translate this operator");
  if (!node.subgraphs.empty()) return unsupported("nodes with subgraphs are not translated");
  TENON_ASSIGN(answer.attrs, Attrs::read(columns_of(*answer.row), node));
  TENON_TRY(check_operands(*answer.row, node));
  return answer.row->check ? answer.row->check({*answer.attrs, node, options.training}) : Status();
}

// A symbol that MXNet gives to a plugin may state the dtypes of a node's outputs: "[0,7]".
Status check_dtypes(const SymbolNode& node) {
  const std::string* dtypes = node.attr("__ext_dtype__");
  if (!dtypes) return {};
  for (const char* number : {"7", "12"}) {  // bool, bfloat16
    for (size_t at = dtypes->find(number); at != std::string::npos; at = dtypes->find(number, at + 1)) {
      const size_t end = at + std::strlen(number);
      const auto digit = [&](size_t i) { return i < dtypes->size() && std::isdigit((*dtypes)[i]); };
      if ((at == 0 || !digit(at - 1)) && !digit(end))
        return unsupported(std::string("MXNet passes no tensors of dtype ") +
                           (*number == '7' ? "bool" : "bfloat16") + " to plugins");
    }
  }
  return {};
}

}  // namespace

std::vector<Answer> check(const Symbol& symbol, const Options& options) {
  std::vector<Answer> answers(symbol.nodes.size());
  for (size_t i = 0; i < symbol.nodes.size(); ++i) {
    const SymbolNode& node = symbol.nodes[i];
    if (node.is_variable()) continue;
    Status& status = answers[i].status;
    status = check_node(node, options, answers[i]);
    if (status.ok()) status = check_dtypes(node);
    for (const Entry& e : node.inputs)
      if (status.ok()) status = check_dtypes(symbol.nodes[e.node]);
  }
  // A node whose hidden output is read computes for a gradient.
  auto read = [&](const Entry& e) {
    Answer& from = answers[e.node];
    if (!from.status.ok()) return;
    const int outputs = from.row && from.row->outputs ? from.row->outputs(*from.attrs) : 1;
    if (e.output >= static_cast<uint32_t>(outputs))
      from.status = symbol.nodes[e.node].is_variable()
                        ? invalid("a variable has one output")
                        : unsupported("its output " + std::to_string(e.output) +
                                      " is read, which Tenon does not compute");
  };
  for (const SymbolNode& node : symbol.nodes)
    for (const Entry& e : node.inputs) read(e);
  for (const Entry& e : symbol.heads) read(e);
  return answers;
}

}  // namespace tenon::mxnet
