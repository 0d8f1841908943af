// What the plugin asks of a symbol of MXNet, beyond tenon.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/tenon.hpp"

namespace tenon::plugin {

// When parameters become constants of a program: never, once several calls brought the same, from the first call on.
enum class Freeze { never, settled, always };

// How the user wants graphs to be cut and run: the options of optimize_for and hybridize.
struct Options {
  bool training = false;  // mode: "inference" or "training"
  int min_nodes = 1;
  std::string op_names;  // comma-separated; empty: all
  Freeze freeze = Freeze::settled;
  bool dedup = false;  // dedup_subgraph, which is MXNet's
  // Copies stand between the node and its operands, so that MXNet never asks the node to add a gradient to an array.
  bool guarded = false;

  tenon_symbol_options c() const;  // valid as long as this object
};

class Symbol : public tenon::Symbol {
 public:
  explicit Symbol(std::string_view json);

  std::string op(size_t node) const;  // of a variable: "null"
  std::string name(size_t node) const;
  const char* attribute(size_t node, const char* key) const;  // null: absent
  std::vector<tenon_symbol_entry> inputs(size_t node) const;
  std::vector<tenon_symbol_entry> heads() const { return inputs(TENON_SYMBOL_HEADS); }

  // The first operator that Tenon does not run with these options, and why; "" if it runs all.
  std::string refusal(const Options& options) const;
};

}  // namespace tenon::plugin
