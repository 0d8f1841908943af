// Compares the products of backends/inner with sums in double: rows around the sizes of tiles, depths around those of vectors, and all
// ways to begin a sum.
#include "backends/inner/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/random_floats.h"

namespace tenon::inner {
namespace {

TEST(Product, PanelsOfAllTileSizes) {
  const int64_t w = panel_width();
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25, 48})
    for (const int64_t depth : {0, 1, 2, 3, 4, 5, 17, 64})
      for (const int way : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const int start = way % 4;
        const bool half = way >= 4;
        SCOPED_TRACE(std::to_string(rows) + " rows, depth " + std::to_string(depth) + ", start " +
                     std::to_string(start) + (half ? ", half a panel" : ""));
        const int64_t x_step = 1 + start % 2, x_stride = depth * x_step + 3, panel_stride = w + 5,
                      y_stride = w + 2;
        const auto x = random_floats(rows * x_stride, 1), panel = random_floats(depth * panel_stride + w, 2),
                   bias = random_floats(w, 3), factors = random_floats(rows, 4),
                   before = random_floats(rows * y_stride, 5);
        auto y = before;
        multiply({.x = x.data(),
                  .x_stride = x_stride,
                  .rows = rows,
                  .panel = panel.data(),
                  .panel_stride = panel_stride,
                  .depth = depth,
                  .y = y.data(),
                  .y_stride = y_stride,
                  .bias = start == 1 ? bias.data() : nullptr,
                  .factors = start == 2 ? factors.data() : nullptr,
                  .adds = start == 3,
                  .x_step = x_step,
                  .columns = half ? w / 2 : w});
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < y_stride; ++j) {
            const auto at = static_cast<size_t>(r * y_stride + j);
            if (j >= (half ? w / 2 : w)) {
              ASSERT_EQ(y[at], before[at]) << "behind row " << r;
              continue;
            }
            double sum = start == 1   ? bias[static_cast<size_t>(j)]
                         : start == 2 ? static_cast<double>(factors[static_cast<size_t>(r)]) * before[at]
                         : start == 3 ? before[at]
                                      : 0;
            for (int64_t k = 0; k < depth; ++k)
              sum += static_cast<double>(x[static_cast<size_t>(r * x_stride + k * x_step)]) *
                     panel[static_cast<size_t>(k * panel_stride + j)];
            ASSERT_NEAR(y[at], sum, 2e-5) << "row " << r << ", column " << j;
          }
      }
}

TEST(Product, PacksColumnsOfAnyOrder) {
  const int64_t w = panel_width();
  for (const int64_t count : {int64_t{1}, int64_t{3}, w / 2, w - 1, w})
    for (const int64_t depth : {1, 3, 4, 15, 16, 17, 33, 80})
      for (const bool dense : {true, false}) {
        SCOPED_TRACE(std::to_string(count) + " columns, depth " + std::to_string(depth));
        const int64_t column_stride = dense ? depth + 7 : 1, stride = dense ? 1 : count + 2;
        const auto matrix = random_floats((count - 1) * column_stride + (depth - 1) * stride + 1, 1);
        std::vector<float> panel(static_cast<size_t>(depth * w), NAN);
        pack_columns(matrix.data(), column_stride, stride, count, depth, panel.data());
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t j = 0; j < w; ++j)
            ASSERT_EQ(panel[static_cast<size_t>(k * w + j)],
                      j < count ? matrix[static_cast<size_t>(j * column_stride + k * stride)] : 0)
                << "column " << j << ", element " << k;
      }
}

}  // namespace
}  // namespace tenon::inner
