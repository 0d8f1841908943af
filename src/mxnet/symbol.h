// Symbol: a graph in the form in which MXNet stores models (`model-symbol.json`, written by NNVM).
//
// parse_symbol accepts the files of all MXNet versions: attributes under `attrs`, `attr` or `param`, entries of two or
// three numbers, nested subgraphs, attributes of the time before hidden keys (lr_mult for __lr_mult__), and batch
// normalization whose auxiliary variables are not listed. print_symbol writes the form of MXNet 1.9.
//
// Invariants of a parsed symbol: an input or control dependency of a node is an earlier node, so nodes are in
// topological order; variables have no inputs; heads and arg_nodes name existing nodes. Whether an entry's output
// exists is known only for ops of the table (table.h). Tested by tests/unit/mxnet/symbol_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.h"

namespace tenon::mxnet {

struct Entry {
  uint32_t node = 0;
  uint32_t output = 0;
  uint32_t version = 0;  // of a variable: how often it had been written; not used
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Symbol;

struct SymbolNode {
  std::string op;                                          // "null": a variable
  std::string name;                                        // any bytes; MXNet's names need not be unique
  std::vector<std::pair<std::string, std::string>> attrs;  // sorted by key, each key once
  std::vector<Entry> inputs;
  std::vector<uint32_t> control_deps;
  std::vector<Symbol> subgraphs;
  uint32_t outputs = 1;  // how many the file states, hidden ones included, or the most that is read

  bool is_variable() const { return op == "null"; }
  const std::string* attr(std::string_view key) const;  // null: absent
  void set_attr(std::string key, std::string value);
  std::string describe() const;  // "Convolution 'conv0'", "variable 'data'"
};

struct Symbol {
  std::vector<SymbolNode> nodes;
  std::vector<Entry> heads;
  int version = 10901;       // MXNet's, major * 10000 + minor * 100 + patch
  bool has_version = false;  // whether the text states it
  bool is_np_shape = false;  // sizes of 0 are sizes, not unknown

  std::vector<uint32_t> variables() const;  // in order
  std::vector<std::vector<uint32_t>> users()
      const;  // per node, in order, each once; also by control dependencies
};

// The text may be any bytes. The message of a failure names the byte or the node.
inline constexpr size_t kMostNodes = 1 << 20;
inline constexpr size_t kMostOutputs = 4096;  // of a node
inline constexpr size_t kMostDepth = 64;      // of nested objects and arrays
Result<Symbol> parse_symbol(std::string_view json);

// Ends with a newline. parse_symbol gives the same symbol again.
std::string print_symbol(const Symbol& symbol);

}  // namespace tenon::mxnet
