// cuda_maps: how the threads of a GPU walk a map. Decides how many vectors a thread loads at once, and along
// which axes a thread takes several vectors and keeps what does not change. At concrete sizes, for
// cuda_schedule.cc; same_along also serves emit_cuda.cc. Tested by tests/unit/jit/schedule/cuda_schedule_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "jit/schedule/cuda_schedule.h"

namespace tenon::jit {

// Vectors that a thread takes at once, so that a full multiprocessor has enough bytes in flight. The number
// stays low where it would leave too few waves of blocks.
int vectors_ahead(const Kernel& kernel, std::span<const int64_t> sizes, const CudaDevice& device,
                  int relax_level, int vector);

// The axes of the par nest, one bit each, along which a thread should take several vectors of a large map.
// These axes save more repeated reads and divisions by extents than they cost. 0: no axes do. steps: vectors
// of a row that a thread of a team takes otherwise; 0: there are no teams.
unsigned axes_of_rows(const Kernel& map, std::span<const int64_t> sizes, const CudaDevice& device, int vector,
                      int64_t steps);

// For each statement of the body of a map, whether it is the same in all iterations along these axes.
std::vector<bool> same_along(const Kernel& map, unsigned axes);

// Vectors of a map as rows times columns. The schedule names the axes of the rows.
struct RowsOfMap {
  int64_t rows = 1, columns = 1;
};
RowsOfMap rows_of_map(const Kernel& map, std::span<const int64_t> sizes, unsigned axes, int vector);

}  // namespace tenon::jit
