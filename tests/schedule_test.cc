// Decisions about loops, from sizes alone.
#include "jit/schedule.h"

#include <gtest/gtest.h>

namespace tenon::jit {
namespace {

TEST(ReductionPart, FewRowsOfManyElements) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_GT(reduction_part({}, n, false), 0);  // all of any size
  EXPECT_GT(reduction_part({Dim(2), Dim(4)}, n, false), 0);
  EXPECT_EQ(reduction_part({n}, n, false), 0);  // as many rows as there are, one each
  EXPECT_EQ(reduction_part({Dim(4096)}, Dim(1024), false), 0);
  EXPECT_EQ(reduction_part({Dim(2)}, Dim(1024), false), 0);  // too little for two
  EXPECT_GT(reduction_part({Dim(4096)}, Dim(1 << 20), false),
            0);  // in one chain of additions errors would grow
}

TEST(ReductionPart, ColumnsOfManyRows) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_GT(reduction_part({n}, n, true), 0);
  EXPECT_GT(reduction_part({Dim(3)}, Dim(100000), true), 0);
  EXPECT_EQ(reduction_part({n}, Dim(512), true), 0);
  EXPECT_EQ(reduction_part({}, n, true) % kRowsPerBlock, 0);
}

TEST(TilesTransposed, NotShortAxes) {
  DimTable dims;
  EXPECT_TRUE(tiles_transposed(dims.symbol("N"), Dim(64)));
  EXPECT_FALSE(tiles_transposed(Dim(3), dims.symbol("N")));
  EXPECT_FALSE(tiles_transposed(dims.symbol("N"), Dim(2)));
}

TEST(KeepsRow, WhatCostsMoreThanALocal) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_TRUE(keeps_row({false, 8}, Dim(1024), {n}));   // two f32 operands
  EXPECT_FALSE(keeps_row({false, 4}, Dim(1024), {n}));  // one is as cheap to read again
  EXPECT_TRUE(keeps_row({true, 4}, Dim(1024), {n}));    // but for its exp
  EXPECT_TRUE(keeps_row({false, 8}, n, {n}));
  EXPECT_FALSE(keeps_row({false, 8}, n, {}));  // may run in parts
  EXPECT_FALSE(keeps_row({false, 8}, Dim(1 << 20), {n}));
}

}  // namespace
}  // namespace tenon::jit
