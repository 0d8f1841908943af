// Convolution: a convolution of 3x3 windows at stride 1 that takes 16 products for 2x2 results instead of 36 (transforms.h). A thread
// takes a block of tiles at a time: it transforms their pixels, multiplies each of the 16 points by the transformed windows, panel by
// panel of output channels, and transforms the products of a panel to results while they are in the cache. f32; images have dense
// channels. Results do not depend on the number of threads. Immutable; any thread. Tested by tests/unit/backends/winograd_test.cc.
#pragma once

#include <array>

#include "backends/winograd/transforms.h"
#include "src/backend/backend.h"

namespace tenon::winograd {

struct Shape {
  int64_t images = 0, channels = 0, height = 0, width = 0;
  int64_t out_channels = 0, out_height = 0, out_width = 0;
  std::array<int64_t, 2> low = {};  // rows of zeros above an image, columns of zeros in front of it
  ImageStrides in, out;
  std::array<int64_t, 4> weights = {};  // strides of [output channel, input channel, row, column]
  bool turned = false;                  // windows are turned by 180 degrees
};

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
  void transform_block(const Run& run, float* points, int64_t first, int64_t count) const;
  bool store_panel(const Run& run, const float* products, int64_t first, int64_t count, int64_t panel) const;

  Shape shape_;
  int64_t rows_, columns_, tiles_;  // tiles along an image, and of all images
  int64_t blocks_, block_tiles_;    // block_tiles_: of the largest block
  int64_t panel_width_, panels_;
  int64_t groups_;                        // of panels: the threads that share a block
  int threads_;                           // that have work
  int64_t pixel_stride_, thread_floats_;  // from tile to tile of transformed pixels; scratch of a thread
  bool ahead_;                            // the transformed windows are too large for the second cache
};

}  // namespace tenon::winograd
