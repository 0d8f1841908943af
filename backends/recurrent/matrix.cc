// See matrix.h.
#include "backends/recurrent/matrix.h"

#include "backends/inner/few_rows.h"

namespace tenon::recurrent {
namespace {

// Whether the operand is the same in every run of every plan.
bool is_fixed(const Operand& o) {
  const auto known = [](Dim d) { return d.is_const(); };
  return o.constant && o.offset.is_const() && std::ranges::all_of(o.shape, known) &&
         std::ranges::all_of(o.strides, known);
}

int64_t blocks_of(int64_t units) { return (units + panel_width() - 1) / panel_width(); }

}  // namespace

std::vector<UnitRange> unit_ranges(int64_t units, int64_t products, int threads) {
  constexpr int64_t kProductsPerThread = 1 << 16;  // fewer do not pay for waking a thread
  const int64_t blocks = blocks_of(units), most = std::max<int64_t>(1, std::min<int64_t>(threads, blocks));
  const int64_t count = std::clamp<int64_t>(products / kProductsPerThread, 1, most);
  std::vector<UnitRange> ranges(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    UnitRange& range = ranges[static_cast<size_t>(i)];
    range.from = blocks * i / count;
    range.to = blocks * (i + 1) / count;
    range.first = range.from * panel_width();
    range.padded = (range.to - range.from) * panel_width();
    range.units = std::min(range.padded, units - range.first);
  }
  return ranges;
}

int64_t Columns::blocks() const { return blocks_of(size); }
int64_t Columns::floats() const { return blocks() * gates * panel_floats(depth); }
const float* Columns::panel(const float* panels, int64_t block, int64_t gate) const {
  return panels + (block * gates + gate) * panel_floats(depth);
}

void Columns::pack(const float* weight_at, const float* bias_at, int64_t from, int64_t to,
                   float* panels) const {
  const int64_t width = panel_width(), bias_stride = bias_at ? bias.strides[0] : 0;
  for (int64_t block = from; block < to; ++block)
    for (int64_t gate = 0; gate < gates; ++gate) {
      const int64_t first = gate * size + block * width;
      const int64_t count = std::min(width, size - block * width);
      auto* to = const_cast<float*>(panel(panels, block, gate));
      for (int64_t j = 0; j < width; ++j)
        to[j] = bias_at && j < count ? bias_at[(first + j) * bias_stride] : 0;
      inner::pack_columns(weight_at + first * weight.strides[0], weight.strides[0], weight.strides[1], count,
                          depth, to + width);
    }
}

void Columns::multiply(const Memory& memory, const float* x, int64_t x_stride, int64_t rows, int64_t block,
                       int64_t gate, float* y, int64_t y_stride) const {
  if (!in_place) {
    const float* at = panel(memory.panels, block, gate);
    return inner::multiply(
        {x, x_stride, rows, at + panel_width(), panel_width(), depth, y, y_stride, at, nullptr});
  }
  const int64_t from = block * panel_width(), first = gate * size + from,
                stride = memory.bias ? bias.strides[0] : 0;
  inner::multiply(
      {x, x_stride, rows, memory.weight + first * weight.strides[0], DType::f32, 1, weight.strides[0], depth,
       memory.bias ? memory.bias + first * stride : nullptr, stride, y, y_stride},
      0, std::min<int64_t>(panel_width(), size - from));
}

Columns::Memory Columns::in_run(void* const* buffers, float* panels, int threads, Parallel& parallel) const {
  if (size == 0) return {};
  if (packed) return {reinterpret_cast<const float*>(packed->data())};
  struct Packing {
    const Columns& columns;
    Memory from;
    float* panels;
  } packing{*this, {nullptr, weight.of(buffers), bias.of(buffers)}, panels};
  if (in_place) return packing.from;
  parallel.run(
      blocks(), threads,
      [](void* arg, int, int64_t begin, int64_t end) {
        const auto& p = *static_cast<const Packing*>(arg);
        p.columns.pack(p.from.weight, p.from.bias, begin, end, p.panels);
      },
      &packing);
  return {panels};
}

Columns Matrix::at(const Sizes& sizes, int64_t products, const Allocator& allocator) {
  constexpr int64_t kFew = 8;  // rows of all products of a run
  Columns made;
  made.weight = PlacedOperand(weight_, sizes);
  if (bias_) made.bias = PlacedOperand(*bias_, sizes);
  made.gates = gates_;
  made.size = sizes.eval(weight_.shape[0]) / gates_;
  made.depth = sizes.eval(weight_.shape[1]);
  if (!is_fixed(weight_) || (bias_ && !is_fixed(*bias_))) {
    made.in_place = products <= kFew && made.weight.strides[1] == 1;
    return made;
  }
  std::lock_guard lock(mutex_);  // the first thread packs; the others wait
  if (!packed_) {
    auto arena =
        std::make_shared<Arena>(made.floats() * static_cast<int64_t>(sizeof(float)), allocator, false);
    const auto start = [](const Operand& o) {
      return static_cast<const float*>(o.constant->bytes) + o.offset.value();
    };
    made.pack(start(weight_), bias_ ? start(*bias_) : nullptr, 0, made.blocks(),
              reinterpret_cast<float*>(arena->data()));
    packed_ = std::move(arena);
  }
  made.packed = packed_;
  return made;
}

}  // namespace tenon::recurrent
