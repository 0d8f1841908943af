// See convolution.h.
#include "backends/winograd/convolution.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "backends/inner/product.h"

namespace tenon::winograd {
namespace {

// A block has at most so many tiles and bytes of transformed pixels, which stay in the second cache.
constexpr int64_t kMostTiles = 64, kBlockBytes = 1 << 20;
// Up to so many bytes, the transformed windows stay in a cache and are not prefetched.
constexpr int64_t kCached = 1 << 23;
// The products of so many channels are summed by themselves, so the sum of all is rounded less.
constexpr int64_t kPart = 128;
// With fewer tiles, the transforms and the reads of the windows take longer than the products that they save.
constexpr int64_t kFewestTiles = 16, kFewestTilesPerPack = 20;

int64_t most_tiles(int64_t channels) {
  constexpr int64_t kFewest = 32;  // with fewer, reading the windows takes longer than multiplying by them
  return std::clamp<int64_t>(kBlockBytes / (kPoints * channels * int64_t{sizeof(float)}), kFewest,
                             kMostTiles);
}

// A power of two, so that threads get equal shares of few blocks.
int64_t blocks_of(int64_t tiles, int64_t channels) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(tiles, most_tiles(channels)))));
}

}  // namespace

bool Convolution::pays(const Shape& s, bool constant) {
  const Tiles tiles(s);
  return tiles.fill_vectors() && tiles.count() >= (constant ? kFewestTiles : kFewestTilesPerPack);
}

Convolution::Convolution(const Shape& shape, int threads)
    : shape_(shape),
      tiles_(shape),
      blocks_(blocks_of(tiles_.count(), shape.channels)),
      block_tiles_(ceil_div(tiles_.count(), blocks_)),
      panel_width_(inner::panel_width()),
      panels_(ceil_div(shape.out_channels, panel_width_)),
      groups_(std::min(panels_, ceil_div(threads, blocks_))),
      threads_(static_cast<int>(std::min<int64_t>(threads, blocks_ * groups_))),
      pixel_stride_(shape.channels + lanes()),  // rows of a product do not compete for one set of the cache
      thread_floats_(kPoints * block_tiles_ * (pixel_stride_ + panel_width_)),
      ahead_(packed_floats() * int64_t{sizeof(float)} > kCached) {}

int64_t Convolution::packed_floats() const { return panels_ * kPoints * shape_.channels * panel_width_; }
int64_t Convolution::scratch_floats() const { return threads_ * thread_floats_; }

void Convolution::pack(const float* weights, float* packed, Parallel& parallel) const {
  struct Pack {
    const Convolution* of;
    const float* weights;
    float* packed;
  } pack{this, weights, packed};
  const auto transform = [](void* arg, int, int64_t begin, int64_t end) {
    const Pack& p = *static_cast<const Pack*>(arg);
    const Shape& s = p.of->shape_;
    const int64_t width = p.of->panel_width_, squares = s.channels / lanes();
    for (int64_t at = begin; at < end; ++at) {
      const int64_t panel = at / squares, c = at % squares * lanes();
      float* to = p.packed + panel * kPoints * s.channels * width + c * width;
      for (int64_t j = 0; j < width; j += lanes()) {
        const int64_t k = panel * width + j;
        if (k < s.out_channels) {
          transform_windows({p.weights + k * s.weights[0] + c * s.weights[1], s.weights[0], s.weights[1],
                             s.weights[2], s.weights[3], s.turned, to + j, s.channels * width, width});
          continue;
        }
        for (int64_t point = 0; point < kPoints; ++point)
          for (int64_t i = 0; i < lanes(); ++i)
            std::fill_n(to + (point * s.channels + i) * width + j, lanes(), 0.0f);
      }
    }
  };
  parallel.run(panels_ * (shape_.channels / lanes()), threads_, transform, &pack);
}

struct Convolution::Run {
  const Convolution* of;
  const Memory& memory;
  mutable std::atomic<bool> finite{true};
};

bool Convolution::run(const Memory& memory, Parallel& parallel) const {
  Run run{this, memory};
  const auto part = [](void* arg, int thread, int64_t begin, int64_t end) {
    const Run& r = *static_cast<const Run*>(arg);
    const Convolution& c = *r.of;
    float* scratch = r.memory.scratch + thread * c.thread_floats_;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t block = at / c.groups_, group = at % c.groups_;
      const bool transformed = at > begin && group > 0;
      c.run_block(r, scratch, block, group * c.panels_ / c.groups_, (group + 1) * c.panels_ / c.groups_,
                  transformed);
    }
  };
  parallel.run(blocks_ * groups_, threads_, part, &run);
  return run.finite;
}

void Convolution::run_block(const Run& run, float* scratch, int64_t block, int64_t from_panel,
                            int64_t end_panel, bool transformed) const {
  const int64_t first = block * tiles_.count() / blocks_,
                count = (block + 1) * tiles_.count() / blocks_ - first;
  float* products = scratch + kPoints * block_tiles_ * pixel_stride_;
  if (!transformed)
    tiles_.transform(run.memory.in, first, count, 0, shape_.channels, scratch, pixel_stride_,
                     block_tiles_ * pixel_stride_);
  for (int64_t panel = from_panel; panel < end_panel; ++panel) {
    const float* windows = run.memory.packed + panel * kPoints * shape_.channels * panel_width_;
    for (int64_t point = 0; point < kPoints; ++point)
      for (int64_t c = 0; c < shape_.channels; c += kPart) {
        const float* part = windows + (point * shape_.channels + c) * panel_width_;
        inner::multiply({.x = scratch + point * block_tiles_ * pixel_stride_ + c,
                         .x_stride = pixel_stride_,
                         .rows = count,
                         .panel = part,
                         .panel_stride = panel_width_,
                         .depth = std::min(kPart, shape_.channels - c),
                         .y = products + point * block_tiles_ * panel_width_,
                         .y_stride = panel_width_,
                         .adds = c > 0,
                         .ahead = ahead_});
      }
    if (!store_panel(run, products, first, count, panel)) run.finite.store(false, std::memory_order_relaxed);
  }
}

bool Convolution::store_panel(const Run& run, const float* products, int64_t first, int64_t count,
                              int64_t panel) const {
  const Shape& s = shape_;
  const int64_t channel = panel * panel_width_;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    const Tiles::Position at = tiles_.at(first + i);
    finite &= transform_products({products + i * panel_width_, block_tiles_ * panel_width_, at.image, at.row,
                                  at.column, channel, at.rows, at.columns,
                                  std::min(panel_width_, s.out_channels - channel), run.memory.out, s.out,
                                  &run.memory.epilogue});
  }
  return finite;
}

}  // namespace tenon::winograd
