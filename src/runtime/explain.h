// explain: describes a program in words: the optimised graph with its groups, what each step runs, why each
// group ends, and the planned memory. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <string>

#include "src/runtime/plan/plan.h"

namespace tenon {

std::string explain(const Graph& grouped, const PlanSource& source, const Plan* plan, bool json);

}  // namespace tenon
