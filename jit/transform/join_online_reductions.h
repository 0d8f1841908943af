// online: rows that nothing keeps, gone through as seldom as can be. Locals of a row's length are computed anew where they are
// read, and a sum that follows another fold of the same row joins its loop: sums of exp(x - maximum) times something else, and
// of squares of x - c, where c comes from the sum of x (online results: kernel.h). For GPUs, where such a local would lie in
// memory and a loop costs as much as what it reads. Tested by tests/golden/jit/online_*.tn, tests/unit/jit/join_online_reductions_test.cc.
#pragma once

#include <optional>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

// Nothing where there is nothing to change. Of what it makes it makes nothing more.
std::optional<Kernel> join_online_reductions(const Kernel& kernel);

}  // namespace tenon::jit
