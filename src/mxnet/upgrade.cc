// See upgrade.h.
#include "src/mxnet/upgrade.h"

#include <algorithm>

#include "src/mxnet/table.h"

namespace tenon::mxnet {
namespace {

// Attributes that are not the operator's. Newer files write __lr_mult__ for lr_mult.
constexpr std::string_view kHidden[] = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"};

// The hidden attribute by which the key ends, or "".
std::string_view hidden_end(std::string_view key) {
  for (const std::string_view hidden : kHidden)
    if (key.ends_with(hidden)) return hidden;
  return {};
}

// lr_mult becomes __lr_mult__; weight_lr_mult becomes __lr_mult__ of the variable that is the input `weight`.
void hide_attrs(Symbol& symbol) {
  for (SymbolNode& node : symbol.nodes) {
    const auto attrs = std::move(node.attrs);
    node.attrs.clear();
    for (const auto& [key, value] : attrs) {
      const std::string_view end = hidden_end(key);
      const std::string hidden = "__" + std::string(end) + "__";
      SymbolNode* owner = &node;
      if (!end.empty() && key.size() > end.size() + 1 && !node.is_variable()) {
        const Row* row = find_row(node.op);
        const int input = row ? operand_index(*row, key.substr(0, key.size() - end.size() - 1)) : -1;
        owner = nullptr;
        if (input >= 0 && input < static_cast<int>(node.inputs.size()))
          if (SymbolNode& from = symbol.nodes[node.inputs[input].node]; from.is_variable()) owner = &from;
      } else if (key.size() != end.size()) {
        owner = nullptr;
      }
      if (!end.empty() && owner)
        owner->set_attr(hidden, value);
      else
        node.set_attr(key, value);
    }
  }
}

// Files of MXNet 0.8 and older do not list auxiliary variables. A node that lacks trailing operands gets variables
// named NODE_OPERAND, as MXNet names them.
void add_missing_variables(Symbol& symbol) {
  std::vector<SymbolNode> nodes;
  std::vector<uint32_t> moved;  // the new position of each node
  auto renumber = [&](Entry& e) { e.node = moved[e.node]; };
  for (SymbolNode& node : symbol.nodes) {
    for (Entry& e : node.inputs) renumber(e);
    for (uint32_t& dep : node.control_deps) dep = moved[dep];
    const Row* row = node.is_variable() ? nullptr : find_row(node.op);
    if (row && row->auxiliary > 0) {
      const std::vector<std::string> names = operand_names(*row);
      for (size_t i = node.inputs.size(); i < names.size(); ++i) {
        SymbolNode variable;
        variable.op = "null";
        variable.name = node.name.empty() ? names[i] : node.name + "_" + names[i];
        node.inputs.push_back({static_cast<uint32_t>(nodes.size()), 0, 0});
        nodes.push_back(std::move(variable));
      }
    }
    moved.push_back(static_cast<uint32_t>(nodes.size()));
    nodes.push_back(std::move(node));
  }
  for (Entry& e : symbol.heads) renumber(e);
  symbol.nodes = std::move(nodes);
}

// Before MXNet 0.9.5, axis=-1 of argmax and argmin meant all axes.
void fix_arg_axis(Symbol& symbol) {
  for (SymbolNode& node : symbol.nodes) {
    if (node.op != "argmax" && node.op != "argmin") continue;
    const std::string* axis = node.attr("axis");
    if (axis && *axis == "-1")
      std::erase_if(node.attrs, [](const auto& pair) { return pair.first == "axis"; });
  }
}

}  // namespace

void upgrade(Symbol& symbol) {
  for (SymbolNode& node : symbol.nodes) {
    for (Symbol& graph : node.subgraphs) {
      graph.version = symbol.version;
      upgrade(graph);
    }
  }
  hide_attrs(symbol);
  if (symbol.version < 900) add_missing_variables(symbol);
  if (symbol.version < 905) fix_arg_axis(symbol);
  symbol.version = 10901;
}

}  // namespace tenon::mxnet
