// WeightGradient: the gradient of the windows of a Convolution, in 16 products for 2x2 results instead of 36 (transforms.h). A thread owns
// some of the input's channels by some of the output's. It goes through the tiles block by block: it transforms the pixels and the
// gradients of the results, and adds their products, point by point, to its sums. Results do not depend on the number of threads.
// Immutable; any thread. Tested by tests/unit/backends/winograd_test.cc.
#pragma once

#include "backends/winograd/convolution.h"

namespace tenon::winograd {

class WeightGradient {
 public:
  // Whether channels fit the vectors of this CPU and there are enough tiles.
  static bool pays(const Shape& shape);

  // shape: of the convolution. in and out are the strides of its images and of the gradient of its results, weights those of the
  // gradient of its windows.
  WeightGradient(const Shape& shape, int threads);

  int64_t scratch_floats() const;
  // scratch: aligned to 64 bytes. False if some gradient is not finite. Then the results may be wrong.
  bool run(const float* in, const float* out_gradient, float* weight_gradient, float* scratch,
           Parallel& parallel) const;

 private:
  struct Run;
  struct Part;  // the channels of an item of work
  Part part(int64_t item) const;
  void add_block(const Run& run, const Part& part, int64_t first, int64_t count, float* scratch) const;
  bool store(const Run& run, const Part& part, const float* sums) const;

  Shape shape_;
  Tiles tiles_;
  int64_t panel_width_;
  int64_t in_parts_, out_parts_;    // of the channels: a thread each
  int64_t in_stride_, out_stride_;  // from tile to tile
  int64_t thread_floats_;
};

}  // namespace tenon::winograd
