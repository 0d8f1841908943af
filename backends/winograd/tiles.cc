// See tiles.h.
#include "backends/winograd/tiles.h"

#include <algorithm>

#include "backends/inner/product.h"

namespace tenon::winograd {

Tiles::Tiles(const Shape& shape)
    : shape_(shape),
      rows_(ceil_div(shape.out_height, 2)),
      columns_(ceil_div(shape.out_width, 2)),
      count_(shape.images * rows_ * columns_) {}

bool Tiles::fill_vectors() const {
  const Shape& s = shape_;
  if (s.channels % lanes() != 0 || s.out_channels % lanes() != 0) return false;
  if (s.out_channels % inner::panel_width() != 0 && s.out_channels < 3 * lanes()) return false;
  // Tiles that reach past the result waste products: at most a third.
  return 12 * rows_ * columns_ <= 4 * s.out_height * s.out_width;
}

Tiles::Position Tiles::at(int64_t tile) const {
  const int64_t row = 2 * (tile / columns_ % rows_), column = 2 * (tile % columns_);
  return {tile / columns_ / rows_, row, column, std::min<int64_t>(2, shape_.out_height - row),
          std::min<int64_t>(2, shape_.out_width - column)};
}

void Tiles::transform(const float* in, int64_t first, int64_t count, int64_t channel, int64_t channels,
                      float* points, int64_t tile_stride, int64_t point_stride) const {
  const Shape& s = shape_;
  for (int64_t i = 0; i < count; ++i) {
    const Position at = this->at(first + i);
    const int64_t row = at.row - s.low[0], column = at.column - s.low[1];
    transform_pixels({in + at.image * s.in.image + row * s.in.row + column * s.in.column + channel, s.in.row,
                      s.in.column, -row, s.height - row, -column, s.width - column, channels,
                      points + i * tile_stride, point_stride});
  }
}

}  // namespace tenon::winograd
