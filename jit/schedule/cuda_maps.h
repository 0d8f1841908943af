// cuda_maps: how threads of a GPU go through a map: how many vectors one asks for at once, and along which axes it takes several,
// keeping what does not change. At concrete sizes, for cuda_schedule.cc; what stays the same along axes, for emit_cuda.cc.
// Tested by tests/unit/jit/cuda_schedule_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "jit/schedule/cuda_schedule.h"

namespace tenon::jit {

// Vectors that a thread takes at once, so that a multiprocessor full of threads has enough bytes on their way. Few waves of
// blocks stay as many as they are.
int vectors_ahead(const Kernel& kernel, std::span<const int64_t> sizes, const CudaDevice& device,
                  int relax_level, int vector);

// The axes of the par nest, bit by bit, along which threads, so many of them, had better take several vectors each: where that
// saves more of what is read again, and of divisions by the lengths of axes, than it costs. 0: it is nowhere. steps: if the map
// is not done so, a thread of a team takes so many vectors of a row; 0: there are no teams.
unsigned axes_of_rows(const Kernel& map, std::span<const int64_t> sizes, int64_t threads, int vector,
                      int64_t steps);

// Of the body of a map: which statements are the same in all iterations along these axes.
std::vector<bool> same_along(const Kernel& map, unsigned axes);

// Vectors of a map as its threads take them: rows times columns, where the schedule says along which axes the rows are.
struct RowsOfMap {
  int64_t rows = 1, columns = 1;
};
RowsOfMap rows_of_map(const Kernel& map, std::span<const int64_t> sizes, unsigned axes, int vector);

}  // namespace tenon::jit
