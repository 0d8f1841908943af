// crew: the same work on several threads at once, this one among them. Where no thread can be had, those there are do the rest,
// so `work` takes its pieces from a common counter. The caller is in a NoFork stretch. Tested by tests/unit/jit/compiler_test.cc.
#pragma once

#include <functional>

namespace tenon {

// Returns when all have returned. At most `most` threads, and no more than the machine has or there are pieces.
void parallel_invoke(size_t most, size_t pieces, const std::function<void()>& work);
// How many that would be.
size_t crew_size(size_t most, size_t pieces);

}  // namespace tenon
