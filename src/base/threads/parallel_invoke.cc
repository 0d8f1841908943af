// See parallel_invoke.h.
#include "src/base/threads/parallel_invoke.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "src/base/no_fork.h"

namespace tenon {

size_t parallel_width(size_t most, size_t pieces) {
  return std::min<size_t>({most, std::max(1u, std::thread::hardware_concurrency()), pieces});
}

void parallel_invoke(size_t most, size_t pieces, const std::function<void()>& work) {
  std::vector<std::thread> others;
  for (size_t t = 1; t < parallel_width(most, pieces); ++t) {
    try {
      others.emplace_back([&] {
        const NoFork::Helper helper;
        work();
      });
    } catch (const std::system_error&) {
      break;  // the system has no thread to spare: the others do the rest
    }
  }
  work();
  for (std::thread& t : others) t.join();
}

}  // namespace tenon
