// Symbol JSON for tests, from a short notation: one node a line, "name = op(input input:1){key=value; key=value}", where
// an input is the name of a node with, after a colon, the number of its output. A name that no line defines is a
// variable, which comes before its first reader. The last line has the heads: "return y z:1".
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace tenon::mxnet {

class SymbolText {
 public:
  explicit SymbolText(const std::string& notation) {
    std::istringstream lines(notation);
    for (std::string line; std::getline(lines, line);) {
      const size_t begin = line.find_first_not_of(' ');
      if (begin == line.npos) continue;
      line = line.substr(begin);
      if (line.starts_with("return "))
        heads_ = entries(line.substr(7));
      else
        add(line);
    }
  }

  // `attrs`: the key of the nodes' attributes; `graph_attrs`: of the symbol, with a comma in front.
  std::string json(const std::string& attrs = "attrs", const std::string& graph_attrs = "") const {
    std::string nodes;
    for (const Node& node : nodes_) {
      nodes += (nodes.empty() ? "" : ", ") + std::string("{\"op\": \"") + node.op + "\", \"name\": \"" +
               node.name + "\", \"inputs\": [" + node.inputs + "]";
      if (!node.attrs.empty()) nodes += ", \"" + attrs + "\": {" + node.attrs + "}";
      nodes += "}";
    }
    return "{\"nodes\": [" + nodes + "], \"heads\": [" + heads_ + "]" + graph_attrs + "}";
  }

 private:
  struct Node {
    std::string op, name, inputs, attrs;
  };

  void add(const std::string& line) {
    const size_t equals = line.find(" = "), open = line.find('('), close = line.find(')');
    Node node;
    node.name = line.substr(0, equals);
    node.op = line.substr(equals + 3, open - equals - 3);
    node.inputs = entries(line.substr(open + 1, close - open - 1));
    if (const size_t brace = line.find('{'); brace != line.npos) {
      std::istringstream pairs(line.substr(brace + 1, line.rfind('}') - brace - 1));
      for (std::string pair; std::getline(pairs, pair, ';');) {
        pair = pair.substr(pair.find_first_not_of(' '));
        const size_t at = pair.find('=');
        node.attrs +=
            (node.attrs.empty() ? "\"" : ", \"") + pair.substr(0, at) + "\": \"" + pair.substr(at + 1) + "\"";
      }
    }
    numbers_[node.name] = nodes_.size();
    nodes_.push_back(node);
  }

  std::string entries(const std::string& words) {
    std::string out;
    std::istringstream list(words);
    for (std::string word; list >> word;) {
      const size_t colon = word.find(':');
      const std::string name = word.substr(0, colon),
                        output = colon == word.npos ? "0" : word.substr(colon + 1);
      if (!numbers_.contains(name)) {
        numbers_[name] = nodes_.size();
        nodes_.push_back({"null", name, "", ""});
      }
      out += (out.empty() ? "[" : ", [") + std::to_string(numbers_[name]) + ", " + output + ", 0]";
    }
    return out;
  }

  std::vector<Node> nodes_;
  std::map<std::string, size_t> numbers_;
  std::string heads_;
};

inline std::string symbol_json(const std::string& notation) { return SymbolText(notation).json(); }

}  // namespace tenon::mxnet
