// parallel_invoke: runs the same function on several threads at once, the calling thread among them. If the
// system refuses a thread, the others do its share; so `work` must take its pieces from a shared counter. The
// caller is in a NoFork section. Tested by tests/unit/jit/llvm/compiler_test.cc.
#pragma once

#include <functional>

namespace tenon {

// Returns when all calls of `work` have returned. Uses at most `most` threads, no more than the machine has,
// and no more than there are pieces.
void parallel_invoke(size_t most, size_t pieces, const std::function<void()>& work);
// The number of threads that parallel_invoke uses.
size_t parallel_width(size_t most, size_t pieces);

}  // namespace tenon
