// See problem.h.
#include "backends/cudnn/problem.h"

#include <algorithm>

namespace tenon::cudnn {
namespace {

constexpr size_t kLeastRank = 4;

int64_t count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::string by(const std::vector<int64_t>& list) {
  std::string text;
  for (int64_t v : list) text += (text.empty() ? "" : "x") + std::to_string(v);
  return text;
}

bool all_are(const std::vector<int64_t>& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
}

// The library has no convolutions along one axis: an axis of size 1 in front of it.
void widen(Problem& p) {
  for (auto* dims : {&p.x, &p.w, &p.y}) dims->insert(dims->begin() + 2, 1);
  for (auto* list : {&p.strides, &p.dilations}) list->insert(list->begin(), 1);
  for (auto* list : {&p.low, &p.high}) list->insert(list->begin(), 0);
}

}  // namespace

Work at_sizes(const Recipe& recipe, const Sizes& sizes) {
  Work work;
  Problem& p = work.problem;
  const Operand* operands[Work::kTensors] = {&recipe.x, &recipe.w, &recipe.y};
  std::vector<int64_t>* dims[Work::kTensors] = {&p.x, &p.w, &p.y};
  const int64_t item = size_of(recipe.dtype);
  for (int t = 0; t < Work::kTensors; ++t) {
    *dims[t] = sizes.eval(operands[t]->shape);
    work.buffers[t] = operands[t]->buffer;
    work.offsets[t] = sizes.eval(operands[t]->offset) * item;
  }
  work.result_bytes = count(p.y) * item;
  work.empty = work.result_bytes == 0;
  work.zeros = !work.empty && (count(p.x) == 0 || count(p.w) == 0);
  p.dtype = recipe.dtype;
  p.tf32 = recipe.tf32;
  p.transposed = recipe.transposed;
  p.channels_last = recipe.channels_last;
  p.low = recipe.low;
  p.high = recipe.high;
  p.strides = recipe.strides;
  p.dilations = recipe.dilations;
  if (p.y.size() < kLeastRank) widen(p);
  return work;
}

std::vector<int64_t> Problem::strides_of(const std::vector<int64_t>& dims) const {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = 1;
  if (channels_last) step = dims[1];
  for (size_t i = dims.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

std::string Problem::key() const {
  std::string key;
  auto put = [&](int64_t v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
  for (int64_t v : {static_cast<int64_t>(dtype), int64_t{tf32}, int64_t{transposed}, int64_t{channels_last},
                    static_cast<int64_t>(x.size())})
    put(v);
  for (const auto* list : {&x, &w, &y, &low, &high, &strides, &dilations})
    for (int64_t v : *list) put(v);
  return key;
}

std::string Problem::text() const {
  std::string said = by(x) + " by " + by(w) + " " + std::string(name(dtype)) + (tf32 ? " tf32" : "");
  std::string more;
  if (transposed) more += " transposed";
  if (!channels_last) more += " channels first";
  const int64_t groups = (transposed ? y[1] : x[1]) / std::max<int64_t>(w[1], 1);
  if (groups > 1) more += " groups " + std::to_string(groups);
  if (!all_are(strides, 1)) more += " stride " + by(strides);
  if (!all_are(dilations, 1)) more += " dilation " + by(dilations);
  if (!all_are(low, 0) || !all_are(high, 0))
    more += " pad " + by(low) + (low == high ? "" : " to " + by(high));
  return said + (more.empty() ? "" : "," + more);
}

}  // namespace tenon::cudnn
