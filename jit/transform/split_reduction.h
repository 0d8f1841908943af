// split_reduction: splits a reduction of few or short rows over many elements into two kernels. The first
// folds parts of fixed size, each a par iteration, into temporaries. The second folds the temporaries and
// does the rest. On a GPU this also splits reductions over the channels of images, in parts of several
// images, and few long rows of a softmax, whose parts each have a maximum and what follows it
// (join_online_reductions.h). So all threads have work for every shape, and errors grow with the length of a
// part and the number of parts. The parts do not depend on the number of threads. schedule.h decides when to
// split and how long parts are. Tested by tests/unit/jit/transform/split_reduction_test.cc and
// tests/golden/jit/lower_full_sum.tn.
#pragma once

#include <vector>

#include "jit/lower/lower.h"

namespace tenon::jit {

// lowered: a kernel as lowering returns it, before tiling. Returns this kernel alone, or the two kernels in
// the order in which they run.
std::vector<LoweredKernel> split_reduction(const LoweredKernel& lowered, DimTable& dims, Target target);

// Whether a kernel for a GPU walks more than once along columns, or along the channels of images, over
// lengths that each time would be worth parts. split_reduction does not split such a kernel, so only as many
// threads or teams as there are columns or channels would have work.
bool walks_again(const LoweredKernel& lowered, DimTable& dims);
// Whether the kernel has no loop but its columns to run in parallel, folds rows that are several loops, so that the fold is not
// split, and walks along them again. Two groups are faster: the second walk runs in parallel over the rows.
bool walks_apart_again(const LoweredKernel& lowered);

}  // namespace tenon::jit
