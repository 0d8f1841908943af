// See pixel_lanes.h.
#include "src/ops/rules/pixel_lanes.h"

#include "src/ops/rows/names.h"
#include "src/ops/rules/windows.h"

namespace tenon {
namespace {

// Up to these counts loops take 0.2 to 1 times as long as the library, on one thread of an AMD EPYC (Zen 4). "Limited" are images whose
// channels are last or whose rows are short, and volumes.
constexpr int64_t kMostMade = 4, kMostMadeLimited = 3;  // channels that a group makes
constexpr int64_t kMostMadeOf16Bits = 2;                // the same, of 16-bit floats, or 1 by single pixels
constexpr int64_t kMostWindows = 256, kMostWindowsLimited = 64;  // of a group
constexpr int64_t kShortRow = 24;
constexpr int64_t kMostFilters = 8;              // channels that have one window each
constexpr int64_t kMostFiltersLast = 4;          // the same, if channels are last
constexpr int64_t kFewestFiltersOfVolumes = 16;  // for which a back end puts channels in lanes
constexpr size_t kRankOfVolumes = 5;

}  // namespace

bool suits_pixel_lanes(const Graph& graph, const Node& node) {
  if (node.op != ops::convolution || attr_as<bool>(node, "tf32")) return false;
  const Dims& w = graph.type(node.inputs[1]).shape;
  const Dim groups = attr_as<Dim>(node, "groups");
  if (!w[0].is_const() || !w[1].is_const() || !groups.is_const()) return false;
  const bool transposed = attr_as<bool>(node, "transposed");
  const int64_t share = w[0].value() / groups.value();
  const int64_t made = transposed ? w[1].value() : share, read = transposed ? share : w[1].value();
  const bool skips = !all_are(attr_as<Dims>(node, "strides"), 1), volumes = w.size() == kRankOfVolumes;
  const bool last = attr_as<std::string>(node, "layout") == "channels_last";
  const Dim row = graph.type(node.inputs[0]).shape.back();
  const bool is_short = row.is_const() && row.value() < kShortRow;
  if (volumes && made == 1 && read == 1)
    return transposed ? !skips : groups.value() < kFewestFiltersOfVolumes || !(skips || last || is_short);
  const DType dtype = node.type.dtype;
  const bool of_16_bits = dtype == DType::f16 || dtype == DType::bf16;
  if (skips || !(dtype == DType::f32 || of_16_bits)) return false;
  const bool limited = last || volumes || is_short;
  int64_t most_made = limited ? kMostMadeLimited : kMostMade;
  if (of_16_bits) most_made = has_windows_of_one(graph, node) ? 1 : kMostMadeOf16Bits;
  if (made != 1 || read != 1)
    return made <= most_made && made * read <= (limited ? kMostWindowsLimited : kMostWindows);
  return groups.value() <= (last ? kMostFiltersLast : kMostFilters);
}

}  // namespace tenon
