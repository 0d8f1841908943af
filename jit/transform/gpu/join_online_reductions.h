// join_online_reductions: reads rows that do not fit on chip as few times as possible. Readers compute the
// elements of locals with the length of a row again. A sum that follows another fold of the same row joins
// its loop: sums of exp(x - maximum) times a factor, and sums of squares of x - c, where c comes from the sum
// of x (online results: kernel.h). For GPUs, where such a local would be in memory and a loop costs as much
// as the bytes that it reads. Tested by tests/golden/jit/online_*.tn and
// tests/unit/jit/transform/gpu/join_online_reductions_test.cc.
#pragma once

#include <optional>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

// Nothing if there is nothing to change. Idempotent.
std::optional<Kernel> join_online_reductions(const Kernel& kernel);

}  // namespace tenon::jit
