// DepthwiseGradient: the gradient of the windows of a depthwise convolution of images whose channels are last,
//
//   dw[c, i, j] = sum over images n and results (y, x) of image[n, y * step - low + i * dilation, x * step - low + j * dilation, c] * dy[n, y, x, c].
//
// The rows of the results fall into parts. Each part adds up its own sums, in the order of its rows, and the sums of the parts are added in
// their order. So the result does not depend on the number of threads. Immutable; any thread. f32 sums, in the instruction set that
// kernels use. Tested by tests/unit/backends/depthwise_gradient_test.cc.
#pragma once

#include <array>
#include <cstdint>

#include "src/backend/backend.h"
#include "src/ir/dtype.h"

namespace tenon::inner {

struct DepthwiseShape {
  struct Strides {  // in elements; the stride of channels is 1
    int64_t image, row, column;
  };
  struct WindowStrides {
    int64_t channel, row, column;
  };
  using Pair = std::array<int64_t, 2>;  // along rows and along columns
  DType dtype = DType::f32;             // f32 or bf16: of images, gradients and windows
  int64_t images = 0, channels = 0;
  Pair size{}, out_size{};  // of images and of results: heights and widths
  Pair window{}, step{1, 1}, low{}, dilation{1, 1};
  Strides in{}, out{};
  WindowStrides windows{};
};

class DepthwiseGradient {
 public:
  // Whether there is code for the type, there are results, and the channels fill a vector.
  static bool computes(const DepthwiseShape& shape);

  explicit DepthwiseGradient(const DepthwiseShape& shape);

  int64_t scratch_floats(int threads) const;
  // scratch: aligned to 64 bytes.
  void run(const void* in, const void* out_gradient, void* window_gradient, float* scratch,
           Parallel& parallel, int threads) const;

 private:
  struct Run;
  void add_part(const Run& run, int64_t part, float* rows) const;
  void store(const Run& run, int64_t vector) const;

  DepthwiseShape shape_;
  int64_t vectors_, width_;  // of channels, and floats in all of them
  int64_t rows_, rows_of_part_, parts_;
  int64_t kept_;  // rows of an image that are kept as f32; 0: they are read where they lie
};

}  // namespace tenon::inner
