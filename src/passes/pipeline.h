// The order of the passes, as in docs/design/overview.md. Tested by tests/golden/passes/*.tn.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/passes/passes.h"

namespace tenon {

// Passes to leave out, by names of optional_passes(). The graph computes the same without them.
using Without = std::vector<std::string>;
std::span<const std::string_view> optional_passes();
// Fails if a name is not one of optional_passes().
Status check_without(const Without& without);

// The passes that run before the graph is split.
Graph optimize(const Graph& graph, const Without& without = {});
// The first half of the script: freeze, optimize, split_constants. params, frozen: as in freeze().
Split optimize_and_split(const Graph& graph, std::span<const void* const> params, std::vector<bool>* frozen,
                         const Without& without = {});
// The second half of the script, for each of the two parts.
Graph form_groups(const Graph& graph, const Placement& placement, const Without& without = {});

// recompute(), after form_groups.
Result<Graph> within_budget(const Graph& graph, int64_t budget, Recomputed* done);

// A pass by name, for `tenon opt --pass=NAME` and the golden tests. `optimize` and `fuse` leave out the passes in `without`; `fuse` is
// form_groups and asks the placement.
struct NamedPass {
  std::string_view name;
  Graph (*run)(const Graph& graph, const Placement& placement, const Without& without);
};
const std::vector<NamedPass>& named_passes();

}  // namespace tenon
