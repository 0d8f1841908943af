// Outputs that would only be copies. An output is often a view of an intermediate: the image in channels_first that a
// convolution computed in channels_last, for instance. If the strides that the host wants for the output put
// every element where the dense intermediate has it, the intermediate is written to the output's memory, and the
// group that would copy has nothing to do. Tested by tests/unit/runtime/same_memory_test.cc.
#pragma once

#include <memory>
#include <span>

#include "src/runtime/plan/plan.h"

namespace tenon {

// Gives such an output a group of its own if its group also stores the intermediate for other groups. The kernel of both would write
// the same elements twice.
void separate_copies(Graph& grouped);

// Finds such groups and sets source.output_of for their intermediates, whose layouts are dense. Returns an
// executable without work for each of these groups and null for all others. members: of each group.
std::vector<std::unique_ptr<Executable>> find_same_memory(const std::vector<std::vector<ValueId>>& members,
                                                          PlanSource& source);

// An intermediate that a group may overwrite with an output, and that nothing else reads, is written to the output's memory too: the
// product to which a scatter adds rows, for instance. Sets source.output_of for it. All executables have been built.
void share_outputs(std::span<const Layout> layouts, PlanSource& source);

}  // namespace tenon
