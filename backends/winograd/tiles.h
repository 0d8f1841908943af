// Tiles: the tiles of a convolution of 3x3 windows at stride 1: 2x2 results each, which read 4x4 pixels.
// Tested by tests/unit/backends/winograd_test.cc.
#pragma once

#include <array>

#include "backends/winograd/transforms.h"
#include "src/base/align.h"

namespace tenon::winograd {

struct Shape {
  int64_t images = 0, channels = 0, height = 0, width = 0;
  int64_t out_channels = 0, out_height = 0, out_width = 0;
  std::array<int64_t, 2> low = {};  // rows of zeros above an image, columns of zeros in front of it
  ImageStrides in, out;
  std::array<int64_t, 4> weights = {};  // strides of [output channel, input channel, row, column]
  bool turned = false;                  // windows are turned by 180 degrees
};

class Tiles {
 public:
  explicit Tiles(const Shape& shape);

  int64_t count() const { return count_; }
  // Whether channels fill vectors, and most tiles lie in the result.
  bool fill_vectors() const;
  struct Position {
    int64_t image, row, column;  // of the first result
    int64_t rows, columns;       // of results: 1 or 2
  };
  Position at(int64_t tile) const;
  // Transforms the pixels of `count` tiles from `first` on, for some of their channels. in: the images. Channel c of point p of
  // tile i becomes points[p * point_stride + (i - first) * tile_stride + c - channel].
  void transform(const float* in, int64_t first, int64_t count, int64_t channel, int64_t channels,
                 float* points, int64_t tile_stride, int64_t point_stride) const;

 private:
  Shape shape_;
  int64_t rows_, columns_, count_;
};

}  // namespace tenon::winograd
