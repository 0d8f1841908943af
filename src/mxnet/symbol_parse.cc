// See symbol.h: the reader. nlohmann's JSON library parses the text; this file turns its values into nodes and checks
// them. The library reports mistakes by exceptions, which end here.
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "src/mxnet/symbol.h"
#include "src/mxnet/upgrade.h"

namespace tenon::mxnet {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostString = size_t{1} << 20;

[[noreturn]] void refuse(std::string message) { throw StatusError(invalid(std::move(message))); }

// An iterator over the text that tells how far the parser has read.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  size_t* count;
  reference operator*() const { return *at; }
  Cursor& operator++() {
    ++at;
    ++*count;
    return *this;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.at == b.at; }
};

// The message without the library's prefix "[json.exception.parse_error.101] ".
std::string plain(const char* what) {
  const std::string text = what;
  const size_t end = text.find("] ");
  return end == text.npos ? text : text.substr(end + 2);
}

// Refuses what is deeper, longer or named twice.
Json parse_text(std::string_view text) {
  size_t count = 0;
  std::vector<std::set<std::string>> keys;
  auto at = [&] { return "byte " + std::to_string(count) + ": "; };
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > static_cast<int>(kMostDepth))
      refuse(at() + "objects and arrays are nested deeper than " + std::to_string(kMostDepth));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event != Json::parse_event_t::key && event != Json::parse_event_t::value) return true;
    if (!parsed.is_string()) return true;
    const auto& string = parsed.get_ref<const std::string&>();
    if (string.size() > kMostString)
      refuse(at() + "a string is longer than " + std::to_string(kMostString) + " bytes");
    if (event == Json::parse_event_t::key && !keys.back().insert(string).second)
      refuse(at() + "the key '" + string.substr(0, 80) + "' is given twice");
    return true;
  };
  return Json::parse(Cursor{std::to_address(text.begin()), &count},
                     Cursor{std::to_address(text.end()), &count}, check);
}

uint32_t read_number(const Json& json, const std::string& what) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > UINT32_MAX)
    refuse(what + " is no number from 0 to 4294967295");
  return static_cast<uint32_t>(json.get<uint64_t>());
}

const Json& member(const Json& object, const char* key, const std::string& what) {
  const auto it = object.find(key);
  if (it == object.end()) refuse(what + " has no '" + key + "'");
  return *it;
}

const Json& as_array(const Json& json, const std::string& what) {
  if (!json.is_array()) refuse(what + " is no array");
  return json;
}

std::string as_string(const Json& json, const std::string& what) {
  if (!json.is_string()) refuse(what + " is no string");
  return json.get<std::string>();
}

// [node, output] or [node, output, version]; `nodes`: how many nodes it may name.
Entry read_entry(const Json& json, size_t nodes, const std::string& what) {
  as_array(json, what);
  if (json.size() < 2 || json.size() > 3)
    refuse(what + " has " + std::to_string(json.size()) + " numbers, not 2 or 3");
  Entry e;
  e.node = read_number(json[0], what);
  e.output = read_number(json[1], what);
  if (json.size() == 3) e.version = read_number(json[2], what);
  if (e.node >= nodes)
    refuse(what + " names node " + std::to_string(e.node) + ", which does not come before");
  if (e.output >= kMostOutputs) refuse(what + " names output " + std::to_string(e.output));
  return e;
}

// *old: set if a key of the time before MXNet 1.0 occurs.
Symbol read_symbol(const Json& json, const std::string& what, size_t* nodes_left, bool* old);

// `index`: the node's position, above those of all its inputs.
SymbolNode read_node(const Json& json, size_t index, const std::string& where, size_t* nodes_left,
                     bool* old) {
  SymbolNode node;
  std::string what = where + "node " + std::to_string(index);
  if (!json.is_object()) refuse(what + " is no object");
  node.op = as_string(member(json, "op", what), what + ": 'op'");
  node.name = as_string(member(json, "name", what), what + ": 'name'");
  what += " (" + node.describe() + ")";
  // Newer files have `attrs`, those of MXNet 0.9 to 0.11 `attr`, older ones `param` and `attr`.
  for (const char* key : {"param", "attr", "attrs"}) {
    const auto it = json.find(key);
    if (it == json.end()) continue;
    if (std::string_view(key) != "attrs") *old = true;
    if (!it->is_object()) refuse(what + ": '" + key + "' is no object");
    for (const auto& [name, value] : it->items())
      node.set_attr(name, as_string(value, what + ": '" + name + "'"));
  }
  if (const auto it = json.find("inputs"); it != json.end())
    for (const Json& input : as_array(*it, what + ": 'inputs'"))
      node.inputs.push_back(read_entry(input, index, what + ": input " + std::to_string(node.inputs.size())));
  if (const auto it = json.find("control_deps"); it != json.end()) {
    for (const Json& dep : as_array(*it, what + ": 'control_deps'")) {
      node.control_deps.push_back(read_number(dep, what + ": a control dependency"));
      if (node.control_deps.back() >= index) refuse(what + ": a control dependency does not come before");
    }
  }
  if (const auto it = json.find("subgraphs"); it != json.end())
    for (const Json& graph : as_array(*it, what + ": 'subgraphs'"))
      node.subgraphs.push_back(read_symbol(graph, what + ": a subgraph: ", nodes_left, old));
  if (node.is_variable() && !node.inputs.empty()) refuse(what + " has inputs");
  return node;
}

// {"mxnet_version": ["int", 10901], ...}; anything else in it is ignored.
void read_graph_attrs(const Json& json, Symbol& symbol) {
  const auto it = json.find("attrs");
  if (it == json.end() || !it->is_object()) return;
  auto number = [&](const char* key) -> int {
    const auto found = it->find(key);
    if (found == it->end() || !found->is_array() || found->size() != 2) return -1;
    const Json& value = (*found)[1];
    return value.is_number_unsigned() && value.get<uint64_t>() < 1'000'000 ? value.get<int>() : -1;
  };
  if (const int version = number("mxnet_version"); version >= 0) {
    symbol.version = version;
    symbol.has_version = true;
  }
  symbol.is_np_shape = number("is_np_shape") > 0;
}

// How many outputs each node has, by the file's node_row_ptr if that is plausible, and by what is read.
void read_outputs(const Json& json, Symbol& symbol) {
  for (SymbolNode& node : symbol.nodes)
    for (const Entry& e : node.inputs)
      symbol.nodes[e.node].outputs = std::max(symbol.nodes[e.node].outputs, e.output + 1);
  for (const Entry& e : symbol.heads)
    symbol.nodes[e.node].outputs = std::max(symbol.nodes[e.node].outputs, e.output + 1);
  const auto it = json.find("node_row_ptr");
  if (it == json.end() || !it->is_array() || it->size() != symbol.nodes.size() + 1) return;
  for (size_t i = 0; i < symbol.nodes.size(); ++i) {
    const Json &from = (*it)[i], &to = (*it)[i + 1];
    if (!from.is_number_unsigned() || !to.is_number_unsigned()) return;
    const uint64_t begin = from.get<uint64_t>(), end = to.get<uint64_t>();
    if (end > begin && end - begin <= kMostOutputs)
      symbol.nodes[i].outputs = std::max(symbol.nodes[i].outputs, static_cast<uint32_t>(end - begin));
  }
}

Symbol read_symbol(const Json& json, const std::string& what, size_t* nodes_left, bool* old) {
  Symbol symbol;
  if (!json.is_object()) refuse(what + "the symbol is no object");
  const Json& nodes = as_array(member(json, "nodes", what + "the symbol"), what + "'nodes'");
  if (nodes.size() > *nodes_left) refuse(what + "more than " + std::to_string(kMostNodes) + " nodes");
  *nodes_left -= nodes.size();
  for (const Json& node : nodes)
    symbol.nodes.push_back(read_node(node, symbol.nodes.size(), what, nodes_left, old));
  if (const auto it = json.find("arg_nodes"); it != json.end()) {
    for (const Json& arg : as_array(*it, what + "'arg_nodes'")) {
      const uint32_t n = read_number(arg, what + "an entry of 'arg_nodes'");
      if (n >= symbol.nodes.size() || !symbol.nodes[n].is_variable())
        refuse(what + "'arg_nodes' names node " + std::to_string(n) + ", which is no variable");
    }
  }
  for (const Json& head : as_array(member(json, "heads", what + "the symbol"), what + "'heads'"))
    symbol.heads.push_back(
        read_entry(head, symbol.nodes.size(), what + "head " + std::to_string(symbol.heads.size())));
  read_graph_attrs(json, symbol);
  read_outputs(json, symbol);
  return symbol;
}

}  // namespace

Result<Symbol> parse_symbol(std::string_view text) {
  try {
    size_t nodes_left = kMostNodes;
    bool old = false;
    Symbol symbol = read_symbol(parse_text(text), "", &nodes_left, &old);
    // Files without a version are of MXNet 0.8 or older, except for those that MXNet 1.x hands to libraries.
    if (!symbol.has_version && old) symbol.version = 800;
    upgrade(symbol);
    return symbol;
  } catch (const StatusError& e) {
    return e.status;
  } catch (const Json::parse_error& e) {
    return invalid("byte " + std::to_string(e.byte) + ": " + plain(e.what()));
  } catch (const Json::exception& e) {
    return invalid(plain(e.what()));
  }
}

}  // namespace tenon::mxnet
