// The script: which pass runs when. Reads like the list in docs/design/overview.md. Tested by tests/golden/passes/*.tn.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/passes/passes.h"

namespace tenon {

// Passes that are left out: names of optional_passes(). The graph means the same without them.
using Without = std::vector<std::string>;
std::span<const std::string_view> optional_passes();
// Fails where a name is none of these.
Status check_without(const Without& without);

// What the pipeline has to ask the back ends.
struct Placement {
  // The back end that runs this node as it is, or "" when its body must be used.
  std::function<std::string(const Graph&, ValueId)> backend;
  std::function<FuseRules(const Graph&)> rules;
  Without without = {};
  // What a node of this graph, whose operands are values of the builder already, becomes before groups form. Empty: itself.
  std::function<ValueId(Builder&, Node&&, const Graph&, ValueId)> arrange = {};
};

// First half: on the whole graph, frozen params being constants. Second half: on each part after the split.
Graph optimize(const Graph& graph, const Without& without = {});
Graph form_groups(const Graph& graph, const Placement& placement);

// A pass by name, for `tenon opt --pass=NAME` and the golden tests.
struct NamedPass {
  std::string_view name;
  Graph (*run)(const Graph&);
};
const std::vector<NamedPass>& named_passes();

}  // namespace tenon
