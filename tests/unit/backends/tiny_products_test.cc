// Compares products of tiny matrices with sums in double: all sizes around those of vectors and tiles, dense, transposed, spaced and
// shared matrices. Matrices begin or end at a protected page, so that an access outside of them crashes.
#include "backends/inner/tiny_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/kernel_run.h"
#include "tests/support/random_floats.h"

namespace tenon::inner {
namespace {

constexpr int64_t kCount = 9;

enum class Order : uint8_t { dense, transposed, spaced, shared };
constexpr Order kOrders[] = {Order::dense, Order::transposed, Order::spaced, Order::shared};

// Matrices whose first or last element lies at a protected page.
template <class T>
class Placed {
 public:
  Placed(Order order, int64_t rows, int64_t columns, bool at_end)
      : rows_(rows),
        columns_(columns),
        order_(order),
        memory_(static_cast<size_t>(size()) * sizeof(T), at_end, sizeof(T)) {
    all_.at = reinterpret_cast<T*>(memory_.data);
    const std::vector<float> elements = random_floats(size(), static_cast<uint32_t>(rows + 20 * columns));
    std::copy(elements.begin(), elements.end(), all_.at);
  }
  const TinyMatrices<T>& all() const { return all_; }
  T& at(int64_t matrix, int64_t row, int64_t column) const {
    return all_.at[matrix * all_.next + row * all_.row + column * all_.column];
  }
  bool intact() const { return memory_.intact(); }

 private:
  // Sets the strides; returns the number of elements from the first to the last.
  int64_t size() {
    const int64_t step = order_ == Order::spaced ? 2 : 1;
    all_.column = order_ == Order::transposed ? rows_ : step;
    all_.row = order_ == Order::transposed ? 1 : (columns_ + step - 1) * step;
    all_.next = order_ == Order::shared   ? 0
                : order_ == Order::spaced ? rows_ * all_.row + 3
                                          : rows_ * columns_;
    return (kCount - 1) * all_.next + (rows_ - 1) * all_.row + (columns_ - 1) * all_.column + 1;
  }

  int64_t rows_, columns_;
  Order order_;
  TinyMatrices<T> all_ = {};
  jit::Fenced memory_;
};

template <class T>
void check_tiny(int64_t rows, int64_t depth, int64_t columns, Order order, bool at_end) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(depth) + " by " + std::to_string(depth) + "x" +
               std::to_string(columns) + ", order " + std::to_string(static_cast<int>(order)));
  // a in the next order, so that a and b differ
  const Order next =
      kOrders[(static_cast<size_t>(order) + static_cast<size_t>(columns)) % std::size(kOrders)];
  const Placed<T> a(next, rows, depth, at_end), b(order, depth, columns, at_end),
      y(order == Order::shared ? Order::dense : order, rows, columns, at_end);
  multiply(TinyProducts<T>{{a.all().at, a.all().row, a.all().column, a.all().next},
                           {b.all().at, b.all().row, b.all().column, b.all().next},
                           y.all(),
                           kCount,
                           rows,
                           depth,
                           columns});
  const double bound = sizeof(T) == 4 ? 1e-5 : 1e-14;
  for (int64_t i = 0; i < kCount; ++i)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0, size = 1;
        for (int64_t k = 0; k < depth; ++k) {
          const double product = static_cast<double>(a.at(i, r, k)) * static_cast<double>(b.at(i, k, c));
          sum += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(static_cast<double>(y.at(i, r, c)), sum, bound * size)
            << "matrix " << i << " row " << r << " column " << c;
      }
  EXPECT_TRUE(a.intact() && b.intact() && y.intact());
}

TEST(TinyProducts, OfAllSizesAndOrders) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16})
    for (const int64_t depth : {1, 2, 3, 4, 7, 8, 16})
      for (int64_t columns = 2; columns <= kMostTiny; ++columns)
        for (const Order order : kOrders)
          for (const bool at_end : {true, false}) {
            check_tiny<float>(rows, depth, columns, order, at_end);
            check_tiny<double>(rows, depth, columns, order, at_end);
            if (HasFailure()) return;
          }
}

// More products than are copied at a time.
TEST(TinyProducts, OfManyMatrices) {
  constexpr int64_t kMany = 1000, kSize = 3;
  const auto a = random_floats(kMany * kSize * kSize, 1), b = random_floats(kMany * kSize * kSize, 2);
  for (const bool transposed : {false, true}) {
    std::vector<float> y(a.size());
    const int64_t row = transposed ? 1 : kSize, column = transposed ? kSize : 1, next = kSize * kSize;
    multiply(TinyProducts<float>{{a.data(), kSize, 1, next},
                                 {b.data(), row, column, next},
                                 {y.data(), row, column, next},
                                 kMany,
                                 kSize,
                                 kSize,
                                 kSize});
    for (int64_t i = 0; i < kMany; ++i)
      for (int64_t r = 0; r < kSize; ++r)
        for (int64_t c = 0; c < kSize; ++c) {
          float sum = 0;
          for (int64_t k = 0; k < kSize; ++k)
            sum += a[static_cast<size_t>(i * next + r * kSize + k)] *
                   b[static_cast<size_t>(i * next + k * row + c * column)];
          ASSERT_NEAR(y[static_cast<size_t>(i * next + r * row + c * column)], sum, 1e-5) << "matrix " << i;
        }
  }
}

}  // namespace
}  // namespace tenon::inner
