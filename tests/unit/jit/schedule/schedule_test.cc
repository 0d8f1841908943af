// Decisions about loops, which depend only on sizes.
#include "jit/schedule/schedule.h"

#include <gtest/gtest.h>

namespace tenon::jit {
namespace {

TEST(ReductionPart, FewRowsOfManyElements) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_GT(reduction_part({}, n, false), 0);  // a full reduction of any size
  EXPECT_GT(reduction_part({Dim(2), Dim(4)}, n, false), 0);
  EXPECT_EQ(reduction_part({n}, n, false), 0);  // n rows are enough parallel work
  EXPECT_EQ(reduction_part({Dim(4096)}, Dim(1024), false), 0);
  EXPECT_EQ(reduction_part({Dim(2)}, Dim(1024), false), 0);  // too little work for two parts
  EXPECT_GT(reduction_part({Dim(4096)}, Dim(1 << 20), false),
            0);  // errors would grow in one chain of additions
}

TEST(ReductionPart, ColumnsOfManyRows) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_GT(reduction_part({n}, n, true), 0);
  EXPECT_GT(reduction_part({Dim(3)}, Dim(100000), true), 0);
  EXPECT_EQ(reduction_part({n}, Dim(512), true), 0);
  EXPECT_EQ(reduction_part({}, n, true) % kRowsPerBlock, 0);
}

// On a GPU a part has as many elements as a block keeps in flight. For the channels of images, parts consist of several images.
TEST(ReductionPart, OnAGpu) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  auto part = [](const Dims& par, Dim elements, bool columns, Dim inner = Dim(1)) {
    return reduction_part(par, elements, columns, Target::gpu, inner);
  };
  EXPECT_EQ(part({}, n, false), 8192);
  EXPECT_EQ(part({}, Dim(8192), false), 0);
  EXPECT_EQ(part({n}, n, false), 0);
  EXPECT_EQ(part({n}, n, true), 512);
  EXPECT_EQ(part({n}, Dim(512), true), 0);
  EXPECT_EQ(part({Dim(64)}, n, false, Dim(112 * 112)), 1);
  EXPECT_EQ(part({Dim(512)}, n, false, Dim(49)), 20);
  EXPECT_EQ(part({Dim(64)}, Dim(20), false, Dim(49)), 0);
  EXPECT_EQ(part({Dim(64)}, n, false, n), 1);
  EXPECT_EQ(part({Dim(2048)}, n, false, Dim(49)), 0);
  EXPECT_EQ(part({n}, n, false, Dim(49)), 0);
  EXPECT_EQ(part({Dim(12), Dim(64)}, n, true, Dim(128)), 4);
  EXPECT_EQ(reduction_part({Dim(64)}, n, false, Target::cpu, Dim(49)), 0);
  // Many rows that are read again are kept by a block or a cluster, so they have no parts.
  EXPECT_EQ(part({Dim(8192)}, Dim(1 << 17), false), 8192);
  EXPECT_EQ(reduction_part({Dim(8192)}, Dim(1 << 17), false, Target::gpu, Dim(1), true), 0);
  EXPECT_EQ(reduction_part({Dim(4)}, Dim(1 << 17), false, Target::gpu, Dim(1), true), 8192);
}

// Few rows of a softmax that are too long for a cluster to keep. The length must be a constant.
TEST(ReductionPart, OfWhatFollowsAMaximum) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_GT(online_part({Dim(4)}, Dim(1 << 20)), 0);
  EXPECT_GT(online_part({}, Dim(300000)), 0);
  EXPECT_EQ(online_part({Dim(4), Dim(4), Dim(2)}, Dim(1 << 20)), 0);
  EXPECT_EQ(online_part({n}, Dim(1 << 20)), 0);
  EXPECT_EQ(online_part({Dim(4)}, Dim(1 << 18)), 0);
  EXPECT_EQ(online_part({Dim(4)}, n), 0);
}

TEST(RowsOfBlock, ABlockIsNoMoreThanManyShare) {
  DimTable dims;
  EXPECT_EQ(rows_of_block(dims, Dim(16384), Target::gpu), Dim(32));
  EXPECT_EQ(rows_of_block(dims, Dim(16385), Target::gpu), Dim(33));
  EXPECT_EQ(rows_of_block(dims, Dim(100), Target::gpu), Dim(4));
  EXPECT_EQ(rows_of_block(dims, Dim(16384), Target::cpu), Dim(32));
  for (Target target : {Target::cpu, Target::gpu}) {
    EXPECT_TRUE(adds_up_columns(Dim(4096), target));
    EXPECT_EQ(adds_up_columns(Dim(64), target), target == Target::cpu);
    for (Dim columns : {Dim(8), Dim(16384), dims.symbol("M")}) EXPECT_FALSE(adds_up_columns(columns, target));
  }
}

TEST(TilesTransposed, NotShortAxes) {
  DimTable dims;
  EXPECT_TRUE(tiles_transposed(dims.symbol("N"), Dim(64)));
  EXPECT_FALSE(tiles_transposed(Dim(3), dims.symbol("N")));
  EXPECT_FALSE(tiles_transposed(dims.symbol("N"), Dim(2)));
}

Index address(std::vector<std::pair<uint32_t, Dim>> terms) {
  Index at;
  for (const auto& [axis, coef] : terms) at.terms.push_back({coef, false, axis});
  return at;
}

// y[i, j] = x[i, j] * w[j]
Schedule rows_of(DimTable& dims, Dim columns, bool inner, int folds = 0, bool unknown_is_narrow = false) {
  const std::vector<LoopAxis> axes = {{dims.symbol("N"), Dim(0), false, 0}, {columns, Dim(0), inner, 1}};
  const Index whole = address({{0, columns}, {1, Dim(1)}});
  return schedule(dims, axes, {{whole}, {address({{1, Dim(1)}})}, {whole, true}}, {false, false}, false,
                  folds, unknown_is_narrow);
}

TEST(Schedule, LanesRunOverRowsWhereRowsAreNarrow) {
  DimTable dims;
  EXPECT_EQ(rows_of(dims, Dim(64), false).par, (std::vector{0, 1}));
  EXPECT_EQ(rows_of(dims, dims.symbol("M"), false).par, (std::vector{0, 1}));
  EXPECT_EQ(rows_of(dims, Dim(3), false).par, (std::vector{1, 0}));  // the vector axis is last
  EXPECT_TRUE(rows_of(dims, Dim(64), true).simd_inner);
  EXPECT_TRUE(rows_of(dims, Dim(3), true).simd_par);
}

TEST(Schedule, NarrowLoopsOfReductions) {
  EXPECT_EQ(narrow_below(0, 1), kNarrow);
  EXPECT_GT(narrow_below(1, 1), narrow_below(1, 2));  // as many sums of lanes, more gathers
  EXPECT_GT(narrow_below(2, 2), narrow_below(1, 2));
  EXPECT_EQ(narrow_below(1, 9), kNarrow);
  DimTable dims;
  EXPECT_TRUE(rows_of(dims, Dim(11), true).simd_inner);
  EXPECT_TRUE(rows_of(dims, Dim(11), true, 2).simd_par);  // x and y, but not w, have elements for each row
  EXPECT_TRUE(rows_of(dims, Dim(12), true, 2).simd_inner);
}

// y[a, b, j] = x[a, j] * w[b, j]: lanes along b share the elements of x.
TEST(Schedule, ElementsThatLanesShareAreNotGathered) {
  DimTable dims;
  const Dim columns(11);
  const std::vector<LoopAxis> axes = {
      {dims.symbol("A"), Dim(0), false, 0}, {dims.symbol("B"), Dim(0), false, 1}, {columns, Dim(0), true, 2}};
  const Access x{address({{0, columns}, {2, Dim(1)}})}, w{address({{1, columns}, {2, Dim(1)}})};
  EXPECT_TRUE(schedule(dims, axes, {x, w}, {false, false, false}, false, 1).simd_par);
  EXPECT_TRUE(schedule(dims, axes, {w, w}, {false, false, false}, false, 1).simd_inner);
}

TEST(Schedule, RowsOfUnknownLengthMayBeTakenToBeShort) {
  DimTable dims;
  EXPECT_TRUE(rows_of(dims, dims.symbol("M"), true).simd_inner);
  EXPECT_TRUE(rows_of(dims, dims.symbol("M"), true, 0, true).simd_par);
  EXPECT_TRUE(rows_of(dims, Dim(64), true, 1, true).simd_inner);
}

// Windows at stride 1 step by one element along both axes. Lanes of one window would have to be added up at its end.
TEST(Schedule, LanesRunOverNeighbouringWindows) {
  DimTable dims;
  const std::vector<LoopAxis> axes = {{dims.symbol("N"), Dim(0), false, 0}, {Dim(25), Dim(0), true, 1}};
  const Access windows{address({{0, Dim(1)}, {1, Dim(1)}})}, apart{address({{0, Dim(25)}, {1, Dim(1)}})},
      sums{address({{0, Dim(1)}}), true};
  EXPECT_TRUE(schedule(dims, axes, {windows, sums}, {false, false}, false).simd_par);
  EXPECT_TRUE(schedule(dims, axes, {apart, sums}, {false, false}, false).simd_inner);
}

TEST(KeepsRow, WhatCostsMoreThanALocal) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  EXPECT_TRUE(keeps_row({false, 8}, Dim(1024), {n}));   // two f32 operands
  EXPECT_FALSE(keeps_row({false, 4}, Dim(1024), {n}));  // one operand is as cheap to read again
  EXPECT_TRUE(keeps_row({true, 4}, Dim(1024), {n}));    // one operand with an expensive exp
  EXPECT_TRUE(keeps_row({false, 8}, n, {n}));
  EXPECT_FALSE(keeps_row({false, 8}, n, {}));  // may run in parts
  EXPECT_FALSE(keeps_row({false, 8}, Dim(1 << 20), {n}));
}

// A sum of rows that loaded indices select: lanes run along a row, whose elements are adjacent, not along the indices.
TEST(Schedule, LoadedIndicesChooseLines) {
  DimTable dims;
  const std::vector<LoopAxis> axes{{.extent = Dim(512), .start = Dim(0), .inner = false},
                                   {.extent = Dim(64), .start = Dim(0), .inner = false},
                                   {.extent = Dim(8), .start = Dim(0), .inner = true}};
  const IndexTerm bag{.coef = Dim(8), .id = 0}, element{.coef = Dim(1), .id = 1},
      place{.coef = Dim(1), .id = 2}, row{.coef = Dim(64), .dynamic = true, .id = 9, .extent = Dim(10000)},
      out{.coef = Dim(64), .id = 0};
  const std::vector<Access> accesses{{.address = {{bag, place}, Dim(0)}},
                                     {.address = {{element, row}, Dim(0)}},
                                     {.address = {{out, element}, Dim(0)}, .store = true}};
  const Schedule s = schedule(dims, axes, accesses, {false, false, false}, false);
  EXPECT_TRUE(s.simd_par);
  EXPECT_EQ(s.classes[s.par.back()], std::vector<uint32_t>{1});
}

// Windows of an image, summed for each channel: the axes of a window and those that count windows interleave in memory.
TEST(Schedule, FoldsGoInTheOrderOfMemory) {
  DimTable dims;
  const std::vector<LoopAxis> axes{{.extent = Dim(24), .start = Dim(0), .inner = false},
                                   {.extent = Dim(2), .start = Dim(0), .inner = true},
                                   {.extent = Dim(8), .start = Dim(0), .inner = true},
                                   {.extent = Dim(8), .start = Dim(0), .inner = true},
                                   {.extent = Dim(7), .start = Dim(0), .inner = true},
                                   {.extent = Dim(7), .start = Dim(0), .inner = true}};
  const IndexTerm channel{.coef = Dim(1), .id = 0}, image{.coef = Dim(75264), .id = 1},
      rows{.coef = Dim(9408), .id = 2}, columns{.coef = Dim(168), .id = 3}, row{.coef = Dim(1344), .id = 4},
      column{.coef = Dim(24), .id = 5};
  const std::vector<Access> accesses{{.address = {{channel, image, rows, columns, row, column}, Dim(0)}},
                                     {.address = {{channel}, Dim(0)}, .store = true}};
  const auto merged = [&](bool row_is_fixed, bool carried) {
    return schedule(dims, axes, accesses, {false, false, false, false, row_is_fixed, false}, carried).classes;
  };
  using Classes = std::vector<std::vector<uint32_t>>;
  EXPECT_EQ(merged(false, false), (Classes{{0}, {1, 2, 4, 3, 5}}));
  EXPECT_EQ(merged(true, false), (Classes{{0}, {1, 2}, {3, 5}, {4}}));
  EXPECT_EQ(merged(false, true), (Classes{{0}, {1}, {2}, {3}, {4}, {5}}));
}

// Pixels of patches that have their channels last: y[c, h, w, q] = x[h, w, q, c]. Lanes run along w if the loop over q is unrolled.
TEST(Schedule, LanesRunWhereAShortLoopFillsTheirStores) {
  DimTable dims;
  const std::vector<LoopAxis> axes{{.extent = Dim(16), .start = Dim(0), .inner = false},
                                   {.extent = Dim(32), .start = Dim(0), .inner = false},
                                   {.extent = Dim(32), .start = Dim(0), .inner = false},
                                   {.extent = Dim(2), .start = Dim(0), .inner = true}};
  const std::vector<Access> accesses{
      {address({{0, Dim(1)}, {1, Dim(1024)}, {2, Dim(32)}, {3, Dim(16)}})},
      {address({{0, Dim(2048)}, {1, Dim(64)}, {2, Dim(2)}, {3, Dim(1)}}), true}};
  const auto lanes = [&](bool unrolls) {
    const Schedule s = schedule(dims, axes, accesses, {false, false, false, false}, false, 0, false, unrolls);
    return s.classes[s.par.back()];
  };
  EXPECT_EQ(lanes(false), std::vector<uint32_t>{0});
  EXPECT_EQ(lanes(true), (std::vector<uint32_t>{1, 2}));
}

TEST(Schedule, FewLongScansRunOneAfterAnother) {
  DimTable dims;
  const Dim columns = dims.symbol("M");
  const Access x{address({{0, columns}, {1, Dim(1)}})};
  const auto lanes_of = [&](Dim rows) {
    return schedule(dims, {{rows, Dim(0), false, 0}, {columns, Dim(0), true, 1}}, {x}, {false, false}, true)
        .simd_par;
  };
  EXPECT_FALSE(lanes_of(Dim(7)));
  EXPECT_TRUE(lanes_of(Dim(8)));
  EXPECT_TRUE(lanes_of(dims.symbol("N")));
}

}  // namespace
}  // namespace tenon::jit
