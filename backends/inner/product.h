// Products of few rows by a panel, on the calling thread: the inner loops of steps that block their work by themselves. A panel is
// panel_width() columns of a matrix [depth, columns]: for each k the elements k of all its columns, in a row.
// f32 and f64, in the instruction set that kernels use. Tested by tests/unit/backends/product_test.cc.
#pragma once

#include <cstdint>

#include "src/base/align.h"

namespace tenon::inner {

template <class T>
int panel_width_of();  // columns of a panel of T, which is float or double
inline int panel_width() { return panel_width_of<float>(); }
// The columns of the panels that have n columns.
inline int64_t whole_panels(int64_t n) { return ceil_div(n, panel_width()) * panel_width(); }

// Packs `count` <= panel_width() columns of `depth` elements into the rows of a panel. Column j has its elements at
// matrix + j * column_stride + k * stride. Columns behind the last are zeros.
void pack_columns(const float* matrix, int64_t column_stride, int64_t stride, int64_t count, int64_t depth,
                  float* panel);
void pack_columns(const double* matrix, int64_t column_stride, int64_t stride, int64_t count, int64_t depth,
                  double* panel);

// y = first + x * panel, for panel_width() columns of y.
template <class T>
struct PanelProductOf {
  const T* x;
  int64_t x_stride, rows;
  const T* panel;
  int64_t panel_stride;  // from one row of the panel to the next
  int64_t depth;
  T* y;
  int64_t y_stride;
  // The first values: `bias`, panel_width() of them, for every row; or the rows of y times their `factors`; or zeros.
  const T* bias = nullptr;
  const T* factors = nullptr;
  bool adds =
      false;  // to y when the sum is complete. A long sum is rounded less if its parts are added up like this
  int64_t x_step = 1;  // from one element of a row of x to the next
  bool ahead = false;  // the next product reads the panel that follows, which is in no near cache
  // How many columns of y are wanted. If they are at most half of a panel, the others stay as they are.
  int64_t columns = INT64_MAX;
};
using PanelProduct = PanelProductOf<float>;
void multiply(const PanelProduct& product);
void multiply(const PanelProductOf<double>& product);

}  // namespace tenon::inner
