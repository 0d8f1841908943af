// Operands with all memory layouts that a host may pass, for tests/fuzz/strided_test.cc and its counterpart on a device: with gaps,
// with steps, backwards, broadcast, permuted, at unaligned addresses. Either the graph has views in front of the operand, or an
// input is bound with strides. Memory that belongs to no element holds NaN, so that a wrong read shows.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/run_help.h"

namespace tenon {

// The memory layout of one operand: how each axis lies, and the order of the axes in memory.
struct Lying {
  struct Axis {
    int64_t before = 0, after = 0, step = 1;  // unused elements on either side, and the distance of used ones
    bool flipped = false, repeated = false;
  };
  std::vector<Axis> axes;
  std::vector<size_t> order;  // axes in memory, outermost first
  bool bound = false;         // an input is bound with strides; otherwise the graph has views
  int64_t shift = 0;          // elements from an aligned address to the buffer

  bool dense() const {
    for (size_t i = 0; i < axes.size(); ++i) {
      const Axis& a = axes[i];
      if (a.before || a.after || a.step != 1 || a.flipped || a.repeated || order[i] != i) return false;
    }
    return true;
  }
};

// Writes sizes in the text of the graph: as numbers, or as symbols (equal sizes have the same symbol).
struct SizeText {
  bool symbols = false;
  size_t first_of = 0;  // not 0: symbols only for the first axis of tensors of this rank

  std::string operator()(const std::vector<int64_t>& shape, size_t axis, int64_t factor = 1,
                         int64_t more = 0) const {
    const int64_t size = shape[axis];
    const bool may = first_of == 0 || (shape.size() == first_of && axis == 0);
    if (!symbols || size < 2 || !may) return std::to_string(size * factor + more);
    std::string text = (factor == 1 ? "S" : std::to_string(factor) + "*S") + std::to_string(size);
    if (more) text += (more < 0 ? " - " : " + ") + std::to_string(more < 0 ? -more : more);
    return text;
  }
  std::string list(const std::vector<int64_t>& shape) const {
    std::string text;
    for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + (*this)(shape, i);
    return "[" + text + "]";
  }
};

// The inputs of a graph, their memory, and the views that turn them into operands.
class StridedInputs {
 public:
  StridedInputs(SizeText symbols, uint32_t seed) : size_text_(symbols), rng_(seed) {}

  // Adds an operand and returns its name.
  std::string add(const std::vector<int64_t>& shape, const Lying& lying, DType dtype = DType::f32,
                  double low = 0, double high = 0) {
    const size_t rank = shape.size();
    Input in;
    in.dtype = dtype;
    in.shift = lying.shift;
    const std::string base = "%i" + std::to_string(inputs_.size());
    // The shape of the whole memory, in storage order.
    std::vector<int64_t> stored(rank);
    std::vector<std::string> stored_text(rank);
    for (size_t at = 0; at < rank; ++at) {
      const size_t i = lying.order[at];
      const Lying::Axis& a = lying.axes[i];
      stored[at] = a.repeated ? 1 : a.before + (shape[i] - 1) * a.step + 1 + a.after;
      stored_text[at] = a.repeated ? "1" : size_text_(shape, i, a.step, a.before + a.after + 1 - a.step);
    }
    const std::vector<int64_t> stored_strides = dense_strides(stored);
    in.memory = HostTensor(dtype, stored);
    std::vector<int64_t> strides(rank);
    int64_t offset = 0;
    std::vector<std::string> said_strides(rank);
    std::string step = "1";
    for (size_t at = rank; at-- > 0;) {
      const size_t i = lying.order[at];
      const Lying::Axis& a = lying.axes[i];
      strides[i] = a.repeated ? 0 : stored_strides[at] * a.step * (a.flipped ? -1 : 1);
      if (!a.repeated) offset += stored_strides[at] * (a.before + (a.flipped ? (shape[i] - 1) * a.step : 0));
      const int64_t factor = a.repeated ? 0 : a.flipped ? -a.step : a.step;
      said_strides[i] = factor == 1 ? step : factor == 0 ? "0" : std::to_string(factor) + "*(" + step + ")";
      step = step == "1" ? stored_text[at] : "(" + step + ")*(" + stored_text[at] + ")";
    }
    for (int64_t i = 0; i < in.memory.count(); ++i) in.memory.set(i, {nan(), 0});
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> between(low, high);
    walk(shape, {strides}, [&](const auto& at) {
      in.memory.set(offset + at[0], {low < high ? between(rng_) : normal(rng_), 0});
    });
    const std::string type(name(dtype));
    std::string result = base;
    if (lying.bound) {
      std::string text;
      for (const std::string& s : said_strides) text += (text.empty() ? "" : ",") + s;
      in.shape = shape;
      in.strides = strides;
      in.offset = offset;
      head_ += (inputs_.empty() ? "" : ", ") + base + ": " + type + size_text_.list(shape) +
               (rank ? " strides=[" + text + "]" : "");
    } else {
      std::string text;
      for (const std::string& s : stored_text) text += (text.empty() ? "" : ",") + s;
      head_ += (inputs_.empty() ? "" : ", ") + base + ": " + type + "[" + text + "]";
      in.shape = stored;
      in.strides = stored_strides;
      result = views(base, shape, lying);
    }
    inputs_.push_back(std::move(in));
    return result;
  }

  const std::string& head() const { return head_; }  // the parameters of the graph
  const std::string& body() const { return body_; }  // the views
  std::string next() { return "%v" + std::to_string(values_++); }
  void line(const std::string& value, const std::string& text) { body_ += " " + value + " = " + text + "\n"; }
  const SizeText& size_text() const { return size_text_; }
  void set_size_text(SizeText symbols) { size_text_ = symbols; }

  // The inputs as dense tensors, for the evaluator.
  std::vector<HostTensor> dense() const {
    std::vector<HostTensor> all;
    for (const Input& in : inputs_) {
      HostTensor t(in.dtype, in.shape);
      int64_t i = 0;
      walk(in.shape, {in.strides}, [&](const auto& at) { t.set(i++, in.memory.get(in.offset + at[0])); });
      all.push_back(std::move(t));
    }
    return all;
  }
  // Copies the inputs into memory with NaN around them and returns the tensors. `allocate(bytes)` allocates memory with the alignment of
  // the device.
  static constexpr int64_t kAround = 64;
  template <class Allocate>
  std::vector<Tensor> place(const Allocate& allocate) const {
    std::vector<Tensor> tensors;
    for (const Input& in : inputs_) {
      const int64_t item = size_of(in.dtype), around = kAround + in.shift;
      HostTensor whole(in.dtype, {2 * kAround + in.shift + in.memory.count()});
      for (int64_t i = 0; i < whole.count(); ++i) whole.set(i, {nan(), 0});
      if (!in.memory.bytes.empty())
        std::memcpy(whole.bytes.data() + around * item, in.memory.bytes.data(), in.memory.bytes.size());
      char* data = static_cast<char*>(allocate(static_cast<int64_t>(whole.bytes.size())));
      std::memcpy(data, whole.bytes.data(), whole.bytes.size());
      tensors.push_back({data + (around + in.offset) * item, in.dtype, in.shape, in.strides});
    }
    return tensors;
  }

 private:
  struct Input {
    DType dtype = DType::f32;
    HostTensor memory;
    std::vector<int64_t> shape, strides;  // of the binding
    int64_t offset = 0, shift = 0;
  };
  static double nan() { return std::numeric_limits<double>::quiet_NaN(); }

  std::string views(std::string value, const std::vector<int64_t>& shape, const Lying& lying) {
    const size_t rank = shape.size();
    std::vector<size_t> perm(rank);
    for (size_t at = 0; at < rank; ++at) perm[lying.order[at]] = at;
    bool turned = false, repeated = false;
    std::string perm_text, flips;
    for (size_t i = 0; i < rank; ++i) {
      turned = turned || perm[i] != i;
      perm_text += (i ? "," : "") + std::to_string(perm[i]);
      repeated = repeated || lying.axes[i].repeated;
      if (lying.axes[i].flipped) flips += (flips.empty() ? "" : ",") + std::to_string(i);
    }
    const auto then = [&](const std::string& text) {
      const std::string result = next();
      line(result, text);
      value = result;
    };
    if (turned) then("transpose(" + value + "){perm=[" + perm_text + "]}");
    for (size_t i = 0; i < rank; ++i) {
      const Lying::Axis& a = lying.axes[i];
      if (a.repeated || (!a.before && !a.after && a.step == 1)) continue;
      then("slice(" + value + "){axis=" + std::to_string(i) + ", start=" + std::to_string(a.before) +
           ", end=" + size_text_(shape, i, a.step, a.before + 1 - a.step) +
           ", step=" + std::to_string(a.step) + "}");
    }
    if (!flips.empty()) then("flip(" + value + "){axes=[" + flips + "]}");
    if (repeated) then("expand(" + value + "){shape=" + size_text_.list(shape) + "}");
    return value;
  }

  SizeText size_text_;
  std::mt19937 rng_;
  std::vector<Input> inputs_;
  std::string head_, body_;
  int values_ = 0;
};

// A random layout: dense in two of five cases, otherwise with gaps, steps and permuted axes. `repeat`: some axes may have stride 0.
inline Lying some_lying(std::mt19937& rng, size_t rank, bool repeat = true) {
  Lying lying;
  lying.axes.resize(rank);
  for (size_t i = 0; i < rank; ++i) lying.order.push_back(i);
  const auto one_in = [&](uint32_t n) { return rng() % n == 0; };
  lying.shift = one_in(2) ? static_cast<int64_t>(rng() % 4) : 0;
  if (rng() % 5 < 2) return lying;
  lying.bound = one_in(2);
  for (Lying::Axis& a : lying.axes) {
    if (one_in(3)) a.before = rng() % 4;
    if (one_in(3)) a.after = rng() % 6;
    if (one_in(6)) a.step = 2 + rng() % 2;
    a.flipped = one_in(10);
    a.repeated = repeat && one_in(8);
  }
  if (one_in(3)) std::shuffle(lying.order.begin(), lying.order.end(), rng);
  if (rank > 1 && one_in(6)) std::swap(lying.order[rank - 1], lying.order[rank - 2]);
  return lying;
}

}  // namespace tenon
