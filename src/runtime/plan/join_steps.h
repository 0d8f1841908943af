// join_steps: steps in a row become one step if their back end joins them, so that kernels that do not wait for each other run in
// one parallel region. Tested by tests/unit/runtime/join_steps_test.cc.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/runtime/plan/plan.h"

namespace tenon {

// The last of the executables from this one on, in a row, whose steps may be joined.
size_t last_of_row(const PlanSource& source, size_t first);

// Where these buffers are. An output and the inputs that may share its memory have one space. bytes: of each buffer.
std::vector<BufferSpan> spans_of(std::span<const BufferRef> buffers, std::span<const int64_t> bytes,
                                 int inputs, std::span<const std::pair<int, int>> in_place);

// steps: one for each executable that has work. Appends to `joined` the steps that a run executes, and to `owned` the steps that it
// makes. Replaces in `steps` each step whose own kernels share regions. spans: of the buffers, from that of the first step on.
void join_steps(const PlanSource& source, std::span<PlannedStep> steps, std::span<const BufferSpan> spans,
                int threads, std::vector<std::unique_ptr<Step>>& owned, std::vector<PlannedStep>& joined);

}  // namespace tenon
