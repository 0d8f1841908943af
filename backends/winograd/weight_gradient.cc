// See weight_gradient.h.
#include "backends/winograd/weight_gradient.h"

#include <algorithm>
#include <atomic>
#include <tuple>

#include "backends/inner/product.h"

namespace tenon::winograd {
namespace {

constexpr int64_t kBlock = 64;  // tiles whose products are summed by themselves
constexpr int64_t kFewestTilesOfGradient = 48;

// Divides the input's channels, `squares` vectors, and the output's, `panels` panels, into parts, so that a thread has a pair of parts and
// the largest pair is as small as possible. Returns the numbers of parts.
std::pair<int64_t, int64_t> parts_of(int64_t squares, int64_t panels, int64_t threads) {
  std::pair<int64_t, int64_t> best{1, 1};
  int64_t least = squares * panels;
  for (int64_t out = 1; out <= std::min(panels, threads); ++out) {
    const int64_t in = std::min(squares, threads / out);
    const int64_t most = ceil_div(squares, in) * ceil_div(panels, out);
    if (most < least) best = {in, out}, least = most;
  }
  return best;
}

}  // namespace

bool WeightGradient::pays(const Shape& shape) {
  const Tiles tiles(shape);
  return tiles.fill_vectors() && tiles.count() >= kFewestTilesOfGradient;
}

WeightGradient::WeightGradient(const Shape& shape, int threads)
    : shape_(shape), tiles_(shape), panel_width_(inner::panel_width()) {
  const int64_t squares = shape.channels / lanes(), panels = ceil_div(shape.out_channels, panel_width_);
  std::tie(in_parts_, out_parts_) = parts_of(squares, panels, threads);
  const int64_t in_most = ceil_div(squares, in_parts_) * lanes(),
                out_most = ceil_div(panels, out_parts_) * panel_width_;
  // Rows of a product do not compete for one set of the cache.
  in_stride_ = in_most + lanes();
  out_stride_ = out_most + lanes();
  thread_floats_ = kPoints * (kBlock * (in_stride_ + out_stride_) + in_most * out_most);
}

int64_t WeightGradient::scratch_floats() const { return in_parts_ * out_parts_ * thread_floats_; }

struct WeightGradient::Run {
  const WeightGradient* of;
  const float *in, *out_gradient;
  float *weight_gradient, *scratch;
  mutable std::atomic<bool> finite{true};
};

struct WeightGradient::Part {
  int64_t in, in_count, out, out_count;  // out_count: without those that fill a panel
  int64_t panels;
};

WeightGradient::Part WeightGradient::part(int64_t item) const {
  const int64_t i = item / out_parts_, o = item % out_parts_;
  const int64_t squares = shape_.channels / lanes(), panels = ceil_div(shape_.out_channels, panel_width_);
  Part p;
  p.in = i * squares / in_parts_ * lanes();
  p.in_count = (i + 1) * squares / in_parts_ * lanes() - p.in;
  const int64_t first = o * panels / out_parts_;
  p.panels = (o + 1) * panels / out_parts_ - first;
  p.out = first * panel_width_;
  p.out_count = std::min(p.panels * panel_width_, shape_.out_channels - p.out);
  return p;
}

bool WeightGradient::run(const float* in, const float* out_gradient, float* weight_gradient, float* scratch,
                         Parallel& parallel) const {
  Run run{this, in, out_gradient, weight_gradient, scratch};
  const auto compute = [](void* arg, int thread, int64_t begin, int64_t end) {
    const Run& r = *static_cast<const Run*>(arg);
    const WeightGradient& w = *r.of;
    float* own = r.scratch + thread * w.thread_floats_;
    const float* sums = own + kPoints * kBlock * (w.in_stride_ + w.out_stride_);
    for (int64_t item = begin; item < end; ++item) {
      const Part p = w.part(item);
      for (int64_t first = 0; first < w.tiles_.count(); first += kBlock)
        w.add_block(r, p, first, std::min(kBlock, w.tiles_.count() - first), own);
      if (!w.store(r, p, sums)) r.finite.store(false, std::memory_order_relaxed);
    }
  };
  const int64_t parts = in_parts_ * out_parts_;
  parallel.run(parts, static_cast<int>(parts), compute, &run);
  return run.finite;
}

void WeightGradient::add_block(const Run& run, const Part& p, int64_t first, int64_t count,
                               float* scratch) const {
  const Shape& s = shape_;
  float *pixels = scratch, *gradients = pixels + kPoints * kBlock * in_stride_,
        *sums = gradients + kPoints * kBlock * out_stride_;
  tiles_.transform(run.in, first, count, p.in, p.in_count, pixels, in_stride_, kBlock * in_stride_);
  for (int64_t i = 0; i < count; ++i) {
    const Tiles::Position at = tiles_.at(first + i);
    transform_gradients(
        {run.out_gradient + at.image * s.out.image + at.row * s.out.row + at.column * s.out.column + p.out,
         s.out.row, s.out.column, at.rows, at.columns, p.out_count, gradients + i * out_stride_,
         kBlock * out_stride_});
  }
  for (int64_t point = 0; point < kPoints; ++point)
    for (int64_t panel = 0; panel < p.panels; ++panel)
      inner::multiply({.x = pixels + point * kBlock * in_stride_,
                       .x_stride = 1,
                       .rows = p.in_count,
                       .panel = gradients + point * kBlock * out_stride_ + panel * panel_width_,
                       .panel_stride = out_stride_,
                       .depth = count,
                       .y = sums + (point * p.panels + panel) * p.in_count * panel_width_,
                       .y_stride = panel_width_,
                       .adds = first > 0,
                       .x_step = in_stride_});
}

bool WeightGradient::store(const Run& run, const Part& p, const float* sums) const {
  const auto& [out, in, row, column] = shape_.weights;
  bool finite = true;
  for (int64_t k = 0; k < p.out_count; k += lanes())
    for (int64_t c = 0; c < p.in_count; c += lanes())
      finite &= transform_window_gradients(
          {sums + (k / panel_width_ * p.in_count + c) * panel_width_ + k % panel_width_,
           p.panels * p.in_count * panel_width_, panel_width_,
           run.weight_gradient + (p.out + k) * out + (p.in + c) * in, out, in, row, column});
  return finite;
}

}  // namespace tenon::winograd
