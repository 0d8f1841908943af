// Convolutions of the mock of cuDNN (cudnn_mock.cc): one convolution, or its gradient for x, in double, on tensors of any strides.
#pragma once

#include "tests/mocks/mock_library.h"

namespace {

struct Array {
  int type;
  std::vector<int64_t> dims, strides;

  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  int64_t bytes() const { return count() * item_size(type); }
  // "nchw", "nhwc", or "both" if the two orders coincide; null: dense in neither order.
  const char* layout() const {
    auto lies = [&](bool last) {
      int64_t step = 1;
      bool all = true;
      auto take = [&](size_t i) {
        all = all && (dims[i] == 1 || strides[i] == step);
        step *= dims[i];
      };
      if (last) take(1);
      for (size_t i = dims.size(); i-- > 0;)
        if (!last || i != 1) take(i);
      return all;
    };
    const bool first = lies(false), last = lies(true);
    return first && last ? "both" : first ? "nchw" : last ? "nhwc" : nullptr;
  }
};

// The values of an array in the order of its axes, with three spatial axes.
struct Dense {
  const Array& array;
  int64_t d[5] = {1, 1, 1, 1, 1};
  std::vector<double> values;

  explicit Dense(const Array& a) : array(a), values(static_cast<size_t>(a.count()), 0.0) {
    d[0] = a.dims[0], d[1] = a.dims[1];
    for (size_t i = 2; i < a.dims.size(); ++i) d[5 - a.dims.size() + i] = a.dims[i];
  }
  int64_t space() const { return d[2] * d[3] * d[4]; }
  void read(const char* data) {
    each([&](double& value, int64_t offset) { value = load(array.type, data + offset); });
  }
  void write(char* data) {
    each([&](double& value, int64_t offset) { store(array.type, data + offset, value); });
  }

 private:
  template <class F>
  void each(F&& f) {
    std::vector<int64_t> index(array.dims.size(), 0);
    for (double& value : values) {
      int64_t offset = 0;
      for (size_t i = 0; i < index.size(); ++i) offset += index[i] * array.strides[i];
      f(value, offset * item_size(array.type));
      for (size_t i = index.size(); i-- > 0;) {
        if (++index[i] < array.dims[i]) break;
        index[i] = 0;
      }
    }
  }
};

inline std::string by(const std::vector<int64_t>& list) {
  std::string text;
  for (int64_t v : list) text += (text.empty() ? "" : "x") + std::to_string(v);
  return text;
}

inline std::string type_name(int type) {
  static const char* const names[] = {"f32", "f64", "f16", "", "", "", "", "", "", "bf16"};
  return names[type];
}

struct Job {
  bool backward;
  Array x, w, y;
  std::vector<int64_t> low, high, strides, dilations;

  // The first mismatch, or "".
  std::string check() const {
    const size_t rank = x.dims.size();
    if (w.dims.size() != rank || y.dims.size() != rank || strides.size() + 2 != rank)
      return "ranks that do not fit";
    if (w.type != x.type || y.type != x.type) return "tensors of different types";
    std::string order = "both";
    for (const Array* a : {&x, &w, &y}) {
      const std::string own = a->layout();
      if (own == "both") continue;
      if (order != "both" && order != own) return "tensors of different orders";
      order = own;
    }
    if (x.dims[0] != y.dims[0] || w.dims[0] != y.dims[1] || x.dims[1] % w.dims[1] ||
        w.dims[0] % (x.dims[1] / w.dims[1]))
      return "channels that do not fit";
    for (size_t i = 0; i + 2 < rank; ++i) {
      if (low[i] < 0 || high[i] < 0 || strides[i] < 1 || dilations[i] < 1)
        return "padding, stride or dilation out of range";
      const int64_t reach = dilations[i] * (w.dims[i + 2] - 1) + 1,
                    rest = x.dims[i + 2] + low[i] + high[i] - reach;
      if (rest < 0 || rest / strides[i] + 1 != y.dims[i + 2]) return "sizes that do not fit";
    }
    return "";
  }

  std::string text() const {
    std::string order = "both";
    for (const Array* a : {&x, &w, &y})
      if (std::string(a->layout()) != "both") order = a->layout();
    std::string t = (backward ? "backward " : "forward ") + by(x.dims) + " by " + by(w.dims) + " " +
                    type_name(x.type) + " " + order;
    auto add = [&](const char* what, const std::vector<int64_t>& list, int64_t usual) {
      for (int64_t v : list)
        if (v != usual) {
          t += std::string(" ") + what + " " + by(list);
          return;
        }
    };
    add("stride", strides, 1);
    add("dilation", dilations, 1);
    if (low == high) {
      add("pad", low, 0);
    } else {
      t += " pad " + by(low) + " to " + by(high);
    }
    return t;
  }

  void run(char* x_data, char* w_data, char* y_data) const {
    Dense from(x), filter(w), to(y);
    filter.read(w_data);
    (backward ? to : from).read(backward ? y_data : x_data);
    // Adds spatial axes up to the three of Dense.
    int64_t before[3] = {0, 0, 0}, step[3] = {1, 1, 1}, apart[3] = {1, 1, 1};
    for (size_t i = 0, at = 3 - strides.size(); i < strides.size(); ++i, ++at)
      before[at] = low[i], step[at] = strides[i], apart[at] = dilations[i];
    const int64_t inner = w.dims[1], outer = w.dims[0] / (x.dims[1] / inner);  // channels of one group
    for (int64_t n = 0; n < to.d[0]; ++n)
      for (int64_t k = 0; k < to.d[1]; ++k)
        for (int64_t place = 0; place < to.space(); ++place) {
          double& result = to.values[static_cast<size_t>((n * to.d[1] + k) * to.space() + place)];
          const int64_t at[3] = {place / (to.d[3] * to.d[4]), place / to.d[4] % to.d[3], place % to.d[4]};
          for (int64_t tap = 0; tap < filter.space(); ++tap) {
            const int64_t in[3] = {tap / (filter.d[3] * filter.d[4]), tap / filter.d[4] % filter.d[3],
                                   tap % filter.d[4]};
            int64_t source = 0;
            bool inside = true;
            for (int i = 0; i < 3; ++i) {
              const int64_t p = at[i] * step[i] - before[i] + in[i] * apart[i];
              inside = inside && p >= 0 && p < from.d[2 + i];
              source = source * from.d[2 + i] + p;
            }
            for (int64_t c = 0; inside && c < inner; ++c) {
              double& x_value = from.values[static_cast<size_t>(
                  (n * from.d[1] + k / outer * inner + c) * from.space() + source)];
              const double factor =
                  filter.values[static_cast<size_t>((k * inner + c) * filter.space() + tap)];
              if (backward)
                x_value += factor * result;
              else
                result += factor * x_value;
            }
          }
        }
    (backward ? from : to).write(backward ? x_data : y_data);
  }
};

}  // namespace
