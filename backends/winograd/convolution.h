// Convolution: a convolution of 3x3 windows at stride 1 that takes 16 products for 2x2 results instead of 36 (transforms.h). A thread
// takes a block of tiles at a time: it transforms their pixels, multiplies each of the 16 points by the transformed windows, panel by
// panel of output channels, and transforms the products of a panel to results while they are in the cache. f32; images have dense
// channels. Results do not depend on the number of threads. Immutable; any thread. Tested by tests/unit/backends/winograd_test.cc.
#pragma once

#include "backends/winograd/tiles.h"
#include "src/backend/backend.h"

namespace tenon::winograd {

class Convolution {
 public:
  // Whether channels fit the vectors of this CPU and the transforms take little time beside the products that they save.
  // constant: windows are transformed once, not in each run.
  static bool pays(const Shape& shape, bool constant);

  Convolution(const Shape& shape, int threads);

  int64_t packed_floats() const;
  int64_t scratch_floats() const;
  void pack(const float* weights, float* packed, Parallel& parallel) const;  // transforms the windows

  // Memory is aligned to 64 bytes where it holds packed_floats() or scratch_floats(), otherwise to 4.
  struct Memory {
    const float *in, *packed;
    float *out, *scratch;
    Epilogue epilogue;
  };
  // False if some sum is not finite. Then the results may be wrong.
  bool run(const Memory& memory, Parallel& parallel) const;

 private:
  struct Run;
  void run_block(const Run& run, float* scratch, int64_t block, int64_t from_panel, int64_t end_panel,
                 bool transformed) const;
  bool store_panel(const Run& run, const float* products, int64_t first, int64_t count, int64_t panel) const;

  Shape shape_;
  Tiles tiles_;
  int64_t blocks_, block_tiles_;  // block_tiles_: of the largest block
  int64_t panel_width_, panels_;
  int64_t groups_;                        // of panels: the threads that share a block
  int threads_;                           // that have work
  int64_t pixel_stride_, thread_floats_;  // from tile to tile of transformed pixels; scratch of a thread
  bool ahead_;                            // products prefetch the transformed windows
};

}  // namespace tenon::winograd
