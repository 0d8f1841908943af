// Depthwise: a depthwise convolution of volumes whose channels are last,
//
//   out[n, z, y, x, c] = bias[c] + sum over i, j, k of in[n, z * step - low + i * dilation, y * step - low + j * dilation, x * step - low + k * dilation, c]
//                                                     * windows[c, i, j, k],
//
// with a step, a low padding and a dilation for each axis, and zeros around the volumes. Immutable; any thread. f32, in the instruction set
// that kernels use. Tested by tests/unit/backends/depthwise_test.cc.
#pragma once

#include <array>
#include <cstdint>

#include "src/backend/backend.h"

namespace tenon::inner {

struct VolumeShape {
  using Axes = std::array<int64_t, 3>;  // depth, rows, columns
  struct Strides {                      // in elements; the stride of channels is 1
    int64_t volume;
    Axes axes;
  };
  struct WindowStrides {
    int64_t channel;
    Axes axes;
  };
  int64_t volumes = 0, channels = 0;
  Axes size{}, out_size{}, window{}, step{1, 1, 1}, low{}, dilation{1, 1, 1};
  Strides in{}, out{};
  WindowStrides windows{};
};

class Depthwise {
 public:
  // Whether the channels fill a vector, and there are results and few enough rows of windows.
  static bool computes(const VolumeShape& shape);

  explicit Depthwise(const VolumeShape& shape);

  int64_t scratch_floats() const;
  // bias: may be null. scratch: aligned to 64 bytes.
  void run(const float* in, const float* windows, const float* bias, float* out, float* scratch,
           Parallel& parallel, int threads) const;

 private:
  struct Run;
  void pack(const Run& run, int64_t vector) const;
  void compute_row(const Run& run, int64_t row) const;

  VolumeShape shape_;
  int64_t vectors_, width_;  // of channels, and floats in all of them
};

}  // namespace tenon::inner
