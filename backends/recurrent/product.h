// A product of few rows by a packed matrix, on the calling thread. The matrix [columns, depth] is packed in panels of columns: a
// panel holds the bias of its columns, then for each k their elements k. Columns behind the last are zeros.
// f32, in the instruction set that kernels use. Tested by tests/unit/backends/recurrent_test.cc.
#pragma once

#include <cstdint>

namespace tenon::recurrent {

int panel_width();  // columns of a panel

// The floats of a panel.
inline int64_t panel_floats(int64_t depth) { return (depth + 1) * panel_width(); }

// Packs `count` <= panel_width() columns. Column j has its elements at matrix + j * column_stride + k * stride and its bias at
// bias + j * bias_stride; a null bias is zero.
void pack_panel(const float* matrix, int64_t column_stride, int64_t stride, const float* bias,
                int64_t bias_stride, int64_t count, int64_t depth, float* panel);

// Writes bias + x times the panel to y [rows, panel_width()]. x is [rows, depth]; the elements of its rows are dense.
void multiply_panel(const float* x, int64_t x_stride, int64_t rows, const float* panel, int64_t depth,
                    float* y, int64_t y_stride);

// The same for a matrix that is not packed, whose columns are dense: for products that are too few to pay for packing. Writes
// `count` columns of y.
void multiply_columns(const float* x, int64_t x_stride, int64_t rows, const float* matrix,
                      int64_t column_stride, const float* bias, int64_t bias_stride, int64_t count,
                      int64_t depth, float* y, int64_t y_stride);

}  // namespace tenon::recurrent
