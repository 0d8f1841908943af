// Logs programs and plans: one line each under the topics "program" and "plan", comma-separated below a
// header line, with the reason as the last column of a plan. Tested by tests/unit/runtime/cache_test.cc.
#pragma once

#include <optional>

#include "src/runtime/plan/bind.h"
#include "src/runtime/plan/cache.h"

namespace tenon {

void log_program(int64_t program, const Graph& graph, int64_t kernels, int64_t compiled, double ms);
// nullopt if nobody reads the topic "plan".
std::optional<PlanCache::Watch> watch_plans(int64_t program, const Graph& graph, const Binder& binder);

}  // namespace tenon
