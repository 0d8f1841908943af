// Compares products of few rows with sums in double: both orders of the matrix, sizes around those of vectors, columns and parts,
// all dtypes. A column has the same sum in whatever range it is computed.
#include "backends/inner/few_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/base/convert.h"
#include "tests/support/random_floats.h"

namespace tenon::inner {
namespace {

// The elements in a dtype; `elements` becomes their values.
std::vector<std::byte> stored_as(DType dtype, std::vector<float>& elements) {
  const auto item = static_cast<size_t>(size_of(dtype));
  std::vector<std::byte> bytes(elements.size() * item);
  for (size_t i = 0; i < elements.size(); ++i) {
    if (dtype == DType::f32) {
      std::memcpy(&bytes[i * item], &elements[i], item);
      continue;
    }
    const uint16_t bits = dtype == DType::bf16 ? f32_to_bf16(elements[i]) : f32_to_f16(elements[i]);
    elements[i] = dtype == DType::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
    std::memcpy(&bytes[i * item], &bits, item);
  }
  return bytes;
}

struct Case {
  int64_t rows, columns, depth;
  bool dense_depth, has_bias;
  DType dtype;
  bool far = false;
};

std::string print(const Case& c) {
  return std::to_string(c.rows) + " rows, " + std::to_string(c.columns) + " columns, depth " +
         std::to_string(c.depth) +
         (c.dense_depth ? ", dense columns, "
          : c.far       ? ", dense rows far apart, "
                        : ", dense rows, ") +
         (c.has_bias ? "bias, " : "") + std::string(name(c.dtype));
}

void check(const Case& c) {
  SCOPED_TRACE(print(c));
  const int64_t x_stride = c.depth + 2, y_stride = c.columns + 1;
  const int64_t stride = c.dense_depth ? 1 : c.columns + 3, column_stride = c.dense_depth ? c.depth + 1 : 1;
  const auto x = random_floats(c.rows * x_stride, 1), bias = random_floats(2 * c.columns, 3),
             before = random_floats(c.rows * y_stride, 4);
  auto elements = random_floats(c.depth * stride + c.columns * column_stride, 2);
  const auto matrix = stored_as(c.dtype, elements);
  const auto computed = [&](std::vector<int64_t> ends) {
    auto y = before;
    const FewRows product{x.data(),
                          x_stride,
                          c.rows,
                          matrix.data(),
                          c.dtype,
                          stride,
                          column_stride,
                          c.depth,
                          c.has_bias ? bias.data() : nullptr,
                          2,
                          y.data(),
                          y_stride,
                          c.far};
    int64_t from = 0;
    for (const int64_t end : ends) {
      multiply(product, from, end);
      from = end;
    }
    return y;
  };
  const auto y = computed({c.columns});
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t j = 0; j < c.columns; ++j) {
      double sum = c.has_bias ? bias[static_cast<size_t>(2 * j)] : 0;
      for (int64_t k = 0; k < c.depth; ++k)
        sum += static_cast<double>(x[static_cast<size_t>(r * x_stride + k)]) *
               elements[static_cast<size_t>(k * stride + j * column_stride)];
      ASSERT_NEAR(y[static_cast<size_t>(r * y_stride + j)], sum, 1e-6 * static_cast<double>(c.depth) + 1e-6)
          << "row " << r << ", column " << j;
    }
    const auto behind = static_cast<size_t>(r * y_stride + c.columns);
    ASSERT_EQ(y[behind], before[behind]) << "behind row " << r;
  }
  EXPECT_EQ(computed({std::min(kColumnBlock, c.columns), c.columns}), y);
}

TEST(FewRows, OfAllSizesAndDtypes) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const bool dense_depth : {true, false})
      for (const int64_t rows : {1, 2, 3, 4, 5, 8})
        for (const int64_t columns : {1, 3, 4, 15, 16, 17, 37})
          for (const int64_t depth : {0, 1, 5, 16, 19, 64, 129})
            for (const bool far : {false, true})
              if (!far || !dense_depth)
                check({rows, columns, depth, dense_depth, columns % 2 == 1, dtype, far});
}

TEST(FewRows, OfMoreColumnsThanAPart) {
  for (const int64_t rows : {1, 2, 4})
    for (const bool far : {false, true}) check({rows, 4096 + 35, 11, false, true, DType::f32, far});
}

TEST(FewRows, WidenEveryNumberOf16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (uint32_t bits = 0; bits < 0x10000; bits += 16) {
      uint16_t numbers[16];
      float one = 1, y[16];
      for (uint32_t i = 0; i < 16; ++i) numbers[i] = static_cast<uint16_t>(bits + i);
      multiply({&one, 1, 1, numbers, dtype, 16, 1, 1, nullptr, 0, y, 16}, 0, 16);
      for (uint32_t i = 0; i < 16; ++i) {
        const float expected = dtype == DType::bf16 ? bf16_to_f32(numbers[i]) : f16_to_f32(numbers[i]);
        ASSERT_TRUE(y[i] == expected || (std::isnan(y[i]) && std::isnan(expected))) << bits + i;
      }
    }
}

}  // namespace
}  // namespace tenon::inner
