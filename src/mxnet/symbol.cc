// See symbol.h: the accessors, and the printer of MXNet 1.9's form.
#include "src/mxnet/symbol.h"

#include <algorithm>

namespace tenon::mxnet {
namespace {

auto find_key(auto& attrs, std::string_view key) {
  return std::lower_bound(attrs.begin(), attrs.end(), key,
                          [](const auto& pair, std::string_view k) { return pair.first < k; });
}

void print_string(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void print_entry(std::string& out, const Entry& e) {
  out +=
      "[" + std::to_string(e.node) + ", " + std::to_string(e.output) + ", " + std::to_string(e.version) + "]";
}

template <class List, class Print>
void print_list(std::string& out, const List& list, Print print) {
  out += '[';
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out += ", ";
    print(out, list[i]);
  }
  out += ']';
}

void print_number(std::string& out, uint64_t n) { out += std::to_string(n); }

void print_graph(std::string& out, const Symbol& symbol, const std::string& indent, bool outermost);

void print_node(std::string& out, const SymbolNode& node, const std::string& indent) {
  const std::string inner = indent + "  ";
  out += indent + "{\n" + inner + "\"op\": ";
  print_string(out, node.op);
  out += ",\n" + inner + "\"name\": ";
  print_string(out, node.name);
  if (!node.attrs.empty()) {
    out += ",\n" + inner + "\"attrs\": {";
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      out += (i ? ",\n" : "\n") + inner + "  ";
      print_string(out, node.attrs[i].first);
      out += ": ";
      print_string(out, node.attrs[i].second);
    }
    out += "\n" + inner + "}";
  }
  out += ",\n" + inner + "\"inputs\": ";
  print_list(out, node.inputs, print_entry);
  if (!node.control_deps.empty()) {
    out += ",\n" + inner + "\"control_deps\": ";
    print_list(out, node.control_deps, print_number);
  }
  if (!node.subgraphs.empty()) {
    out += ",\n" + inner + "\"subgraphs\": [\n";
    for (size_t i = 0; i < node.subgraphs.size(); ++i) {
      if (i) out += ",\n";
      print_graph(out, node.subgraphs[i], inner + "  ", false);
    }
    out += "\n" + inner + "]";
  }
  out += "\n" + indent + "}";
}

void print_graph(std::string& out, const Symbol& symbol, const std::string& indent, bool outermost) {
  const std::string inner = indent + "  ";
  std::vector<uint64_t> row_ptr = {0};
  for (const SymbolNode& node : symbol.nodes) row_ptr.push_back(row_ptr.back() + node.outputs);
  out += indent + "{\n" + inner + "\"nodes\": [\n";
  for (size_t i = 0; i < symbol.nodes.size(); ++i) {
    if (i) out += ",\n";
    print_node(out, symbol.nodes[i], inner + "  ");
  }
  out += "\n" + inner + "],\n" + inner + "\"arg_nodes\": ";
  print_list(out, symbol.variables(), print_number);
  out += ",\n" + inner + "\"node_row_ptr\": ";
  print_list(out, row_ptr, print_number);
  out += ",\n" + inner + "\"heads\": ";
  print_list(out, symbol.heads, print_entry);
  if (outermost) {
    out += ",\n" + inner + "\"attrs\": {";
    if (symbol.is_np_shape) out += "\"is_np_shape\": [\"int\", 1], ";
    out += "\"mxnet_version\": [\"int\", " + std::to_string(symbol.version) + "]}";
  }
  out += "\n" + indent + "}";
}

}  // namespace

const std::string* SymbolNode::attr(std::string_view key) const {
  const auto it = find_key(attrs, key);
  return it != attrs.end() && it->first == key ? &it->second : nullptr;
}

void SymbolNode::set_attr(std::string key, std::string value) {
  const auto it = find_key(attrs, key);
  if (it != attrs.end() && it->first == key)
    it->second = std::move(value);
  else
    attrs.insert(it, {std::move(key), std::move(value)});
}

std::string SymbolNode::describe() const {
  auto cut = [](const std::string& text) { return text.size() <= 80 ? text : text.substr(0, 80) + "..."; };
  return (is_variable() ? "variable" : cut(op)) + " '" + cut(name) + "'";
}

std::vector<uint32_t> Symbol::variables() const {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].is_variable()) out.push_back(i);
  return out;
}

std::vector<std::vector<uint32_t>> Symbol::users() const {
  std::vector<std::vector<uint32_t>> out(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    auto add = [&](uint32_t from) {
      if (out[from].empty() || out[from].back() != i) out[from].push_back(i);
    };
    for (const Entry& e : nodes[i].inputs) add(e.node);
    for (uint32_t from : nodes[i].control_deps) add(from);
  }
  return out;
}

std::string print_symbol(const Symbol& symbol) {
  std::string out;
  print_graph(out, symbol, "", true);
  return out + "\n";
}

}  // namespace tenon::mxnet
