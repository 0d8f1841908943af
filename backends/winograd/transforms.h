// The transforms of the convolution F(2x2,3x3): Y = A' [ (G g G') * (B' d B) ] A, where d is a tile of 4x4 pixels, g is a window of 3x3
// weights, Y is a tile of 2x2 results and * multiplies element by element (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2016). The 16 elements of a transformed tile are its points. A direct convolution takes 36 products for a tile. The
// gradient of g, for the gradient D of Y, is the adjoint: G' [ (A D A') * (B' d B) ] G, summed over all tiles.
// On the calling thread; f32, in the instruction set that kernels use. Tested by tests/unit/backends/winograd_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::winograd {

constexpr int64_t kPoints = 16;

int64_t lanes();  // channels that a transform handles at once

// Transforms a tile of pixels, B' d B. Rows and columns of the tile outside [first, end) are padding: they are zeros and are not read.
// Channels are dense, and their number is a multiple of lanes().
struct PixelTile {
  const float* pixels;  // row 0, column 0 of the tile, which may lie outside the image
  int64_t row_stride, column_stride;
  int64_t first_row, end_row, first_column, end_column;
  int64_t channels;
  float* points;  // point p of channel c is points[p * point_stride + c]
  int64_t point_stride;
};
void transform_pixels(const PixelTile& tile);

// Transforms windows, G g G', of lanes() channels of the input by lanes() channels of the output.
struct Windows {
  const float* weights;  // element [output channel, input channel, row, column]
  int64_t output_stride, input_stride, row_stride, column_stride;
  bool turned;    // each window is turned by 180 degrees, as a transposed convolution wants it
  float* points;  // of input channel c: points[p * point_stride + c * input_step + output channel]
  int64_t point_stride, input_step;
};
void transform_windows(const Windows& windows);

// Strides of images, in elements. Channels have stride 1.
struct ImageStrides {
  int64_t image = 0, row = 0, column = 0;
};

// Adds an operand to the results, or multiplies them by it. The operand has a value for each channel; its strides are 0 along the other axes
// that it repeats.
struct Term {
  bool multiplies = false;
  const float* operand = nullptr;
  ImageStrides strides;
};

enum class Activation : uint8_t { none, relu, hardswish, silu };

// The epilogue of a convolution applies the terms to its sums, in their order, then the activation, then the minimum. NaN stays NaN.
struct Epilogue {
  const Term* terms = nullptr;
  size_t count = 0;
  Activation activation = Activation::none;
  float slope = 0;  // of relu below 0; with 0 minus infinity becomes 0
  float most = 0;   // if not 0: the minimum of the result and this number
};

// Transforms the products of a tile to results, A' m A, and applies the epilogue. `channels` is a multiple of lanes().
struct ResultTile {
  const float* points;
  int64_t point_stride;
  int64_t image, row, column, channel;  // where the tile begins
  int64_t rows, columns, channels;      // how much of the tile lies in the result: 1 or 2 rows and columns
  float* results;                       // of the whole convolution
  ImageStrides strides;
  const Epilogue* epilogue;
};
// False if some sum is not finite, before the epilogue. Then the results may be wrong, because the transforms add pixels that belong
// to different results: infinity minus infinity is NaN.
bool transform_products(const ResultTile& tile);

// Transforms a tile of gradients of results, A D A'. Elements outside its rows and columns are zeros and are not read. `channels` is a
// multiple of lanes().
struct GradientTile {
  const float* gradients;
  int64_t row_stride, column_stride;
  int64_t rows, columns;  // 1 or 2
  int64_t channels;
  float* points;  // point p of channel c is points[p * point_stride + c]
  int64_t point_stride;
};
void transform_gradients(const GradientTile& tile);

// Transforms sums of products to gradients of windows, G' m G, of lanes() channels of the input by lanes() channels of the output.
struct WindowGradients {
  const float* points;  // of input channel c: points[p * point_stride + c * input_step + output channel]
  int64_t point_stride, input_step;
  float* gradients;  // element [output channel, input channel, row, column]
  int64_t output_stride, input_stride, row_stride, column_stride;
};
// False if some gradient is not finite.
bool transform_window_gradients(const WindowGradients& windows);

}  // namespace tenon::winograd
