// Random graphs around one operation that libraries run: a product, a convolution, a pooling or attention. Its operands and those of
// its epilogue have the layouts of tests/support/strided.h.
#pragma once

#include "tests/support/strided.h"

namespace tenon {

struct StridedCase {
  StridedInputs inputs;
  std::string text;  // the graph
  std::string root;  // the kind of operation, one of kRoots
};

class StridedCases {
 public:
  StridedCases(uint32_t seed, bool symbols, DType dtype = DType::f32)
      : rng_(seed * 2654435761u + 17), in_(SizeText{symbols}, seed), dtype_(dtype) {}

  // `root`: one of kRoots.
  static constexpr const char* kRoots[] = {"matmul",      "batch",      "linear",
                                           "convolution", "transposed", "weight_gradient",
                                           "average",     "attention",  "vector"};
  StridedCase make(const std::string& root) {
    std::string y;
    if (root == "matmul" || root == "batch" || root == "vector")
      y = product(root);
    else if (root == "linear")
      y = linear();
    else if (root == "convolution" || root == "transposed")
      y = convolution(root == "transposed");
    else if (root == "weight_gradient")
      y = weight_gradient();
    else if (root == "average")
      y = average();
    else
      y = attention();
    for (int more = pick({0, 1, 1, 2, 3}); more-- > 0;) y = epilogue(y);
    // The host also chooses the layout of the result.
    std::string strides;
    if (one_in(4) && !shape_.empty()) strides = output_strides();
    return {in_, "graph @f(" + in_.head() + ") {\n" + in_.body() + " return " + y + strides + "\n}", root};
  }

 private:
  bool one_in(uint32_t n) { return rng_() % n == 0; }
  template <class T>
  T pick(std::initializer_list<T> of) {
    return *(of.begin() + rng_() % of.size());
  }
  int64_t some() { return pick<int64_t>({1, 2, 3, 5, 8, 15, 16, 17, 24}); }
  int64_t batch() { return pick<int64_t>({1, 2, 2, 3, 3}); }
  std::string operand(const std::vector<int64_t>& shape, bool repeat = true) {
    return in_.add(shape, some_lying(rng_, shape.size(), repeat), dtype_);
  }
  std::string node(const std::string& text) {
    const std::string v = in_.next();
    in_.line(v, text);
    return v;
  }

  // Whether a product is one of few rows, which the back end "products" computes if the matrix is large.
  bool is_of_few_rows() { return one_in(5); }
  static constexpr int64_t kLargeMatrix[] = {150, 131};
  // Often an input without a dense axis.
  std::string large_matrix(const std::vector<int64_t>& shape) {
    Lying lying = some_lying(rng_, shape.size());
    if (one_in(2)) {
      lying.bound = true;
      lying.axes.back().step = 2;
    }
    return in_.add(shape, lying, dtype_);
  }

  std::string product(const std::string& root) {
    const bool few = is_of_few_rows();
    const int64_t m = root == "vector" ? 1 : few ? pick<int64_t>({1, 2, 4}) : some();
    const int64_t n = few ? kLargeMatrix[0] : some(), k = few ? kLargeMatrix[1] : some();
    std::vector<int64_t> a, b;
    if (root == "batch") {
      for (int axes = pick({1, 1, 2}); axes-- > 0;) {
        const int64_t count = batch();
        shape_.push_back(count);
        a.push_back(one_in(5) ? 1 : count);
        b.push_back(a.back() == count && one_in(4) ? 1 : count);
      }
      if (one_in(6)) b.clear();
      for (size_t i = 0; i < shape_.size(); ++i) shape_[i] = std::max(a[i], b.empty() ? int64_t{1} : b[i]);
    } else if (one_in(2)) {
      for (int axes = pick({1, 2}); axes-- > 0;) a.push_back(batch());
      shape_ = a;
    }
    a.insert(a.end(), {m, k});
    b.insert(b.end(), {k, n});
    shape_.insert(shape_.end(), {m, n});
    const std::string x = operand(a), w = few ? large_matrix(b) : operand(b);
    return node("matmul(" + x + ", " + w + ")");
  }
  std::string linear() {
    const bool few = is_of_few_rows();
    const int64_t n = few ? kLargeMatrix[0] : some(), k = few ? kLargeMatrix[1] : some();
    for (int axes = few ? 0 : pick({0, 1, 1, 2}); axes-- > 0;) shape_.push_back(batch());
    std::vector<int64_t> x = shape_;
    x.insert(x.end(), {few ? pick<int64_t>({1, 2, 4}) : some(), k});
    shape_ = x;
    shape_.back() = n;
    const std::string a = operand(x), w = few ? large_matrix({n, k}) : operand({n, k});
    if (one_in(3)) return node("linear(" + a + ", " + w + ")");
    return node("linear(" + a + ", " + w + ", " + operand({n}) + ")");
  }
  std::string convolution(bool transposed) {
    const bool last = one_in(2), line = one_in(4);
    const int64_t n = batch(), groups = pick<int64_t>({1, 1, 1, 2, 8});
    const int64_t c = 8 * pick<int64_t>({1, 2}), o = groups * pick<int64_t>({4, 5, 8, 16});
    const int64_t kernel = pick<int64_t>({1, 1, 3}), stride = pick<int64_t>({1, 1, 2}), pad = kernel / 2;
    std::vector<int64_t> space{pick<int64_t>({1, 5, 8}), pick<int64_t>({4, 7})};
    if (line) space.erase(space.begin());
    std::vector<int64_t> x{n},
        w = transposed ? std::vector<int64_t>{c, o / groups} : std::vector<int64_t>{o, c / groups};
    shape_ = {n};
    std::vector<int64_t> out;
    std::string ones, strides, pads;
    for (int64_t s : space) {
      w.push_back(kernel);
      out.push_back(transposed ? (s - 1) * stride + kernel - 2 * pad : (s + 2 * pad - kernel) / stride + 1);
      const std::string comma = ones.empty() ? "" : ",";
      ones += comma + "1", strides += comma + std::to_string(stride), pads += comma + std::to_string(pad);
    }
    x.push_back(c), shape_.push_back(o);
    x.insert(last ? x.end() - 1 : x.end(), space.begin(), space.end());
    shape_.insert(last ? shape_.end() - 1 : shape_.end(), out.begin(), out.end());
    count_images();
    const std::string a = operand(x);
    const SizeText before = in_.size_text();
    in_.set_size_text(SizeText{});  // weights have known sizes
    std::string list = a + ", " + operand(w);
    if (one_in(2)) list += ", " + operand({o});
    in_.set_size_text(before);
    return node("convolution(" + list + "){strides=[" + strides + "], padding=[" + pads +
                "], padding_high=[" + pads + "], dilations=[" + ones + "], groups=" + std::to_string(groups) +
                (transposed ? ", transposed=true" : "") + (last ? ", layout=\"channels_last\"" : "") + "}");
  }
  std::string weight_gradient() {
    const bool last = one_in(2);
    const int64_t n = batch(), groups = pick<int64_t>({1, 1, 1, 2, 8});
    const int64_t c = 8 * pick<int64_t>({1, 2}), o = groups * pick<int64_t>({4, 5, 8, 16});
    const int64_t kernel = pick<int64_t>({1, 1, 3}), stride = pick<int64_t>({1, 1, 2}), pad = kernel / 2;
    std::vector<int64_t> x{n}, dy{n};
    for (int64_t size : {pick<int64_t>({1, 5, 8}), pick<int64_t>({4, 7})}) {
      x.push_back(size);
      dy.push_back((size + 2 * pad - kernel) / stride + 1);
    }
    x.insert(last ? x.end() : x.begin() + 1, c);
    dy.insert(last ? dy.end() : dy.begin() + 1, o);
    shape_ = {o, c / groups, kernel, kernel};
    const SizeText before = in_.size_text();
    in_.set_size_text({before.symbols, x.size()});  // only the number of images
    const std::string a = operand(x), b = operand(dy);
    in_.set_size_text(SizeText{});  // the result has known sizes
    auto twice = [](int64_t v) { return "=[" + std::to_string(v) + "," + std::to_string(v) + "]"; };
    return node("convolution_weight_gradient(" + a + ", " + b + "){kernel" + twice(kernel) + ", strides" +
                twice(stride) + ", padding" + twice(pad) + ", padding_high" + twice(pad) +
                ", dilations=[1,1], groups=" + std::to_string(groups) +
                (last ? ", layout=\"channels_last\"" : "") + "}");
  }
  // Only the number of images may be a symbol.
  void count_images() { in_.set_size_text({in_.size_text().symbols, shape_.size()}); }
  std::string average() {
    const bool last = one_in(2);
    const int64_t n = batch(), c = some(), h = 6, w = pick<int64_t>({4, 8});
    shape_ = last ? std::vector<int64_t>{n, h / 2, w / 2, c} : std::vector<int64_t>{n, c, h / 2, w / 2};
    count_images();
    const std::string x = operand(last ? std::vector<int64_t>{n, h, w, c} : std::vector<int64_t>{n, c, h, w});
    const std::string layout = last ? "layout=\"channels_last\"" : "layout=\"channels_first\"";
    if (one_in(2))
      return node("adaptive_avg_pool(" + x + "){output=[3," + std::to_string(w / 2) + "], " + layout + "}");
    return node("avg_pool(" + x + "){kernel=[2,2], strides=[2,2], padding=[0,0], padding_high=[0,0], " +
                layout + "}");
  }
  std::string attention() {
    const int64_t b = batch(), h = pick<int64_t>({1, 2, 4}), l = some(), s = some(),
                  d = pick<int64_t>({8, 16}), e = pick<int64_t>({8, 16});
    shape_ = {b, h, l, e};
    std::string list = operand({b, h, l, d}) + ", " + operand({b, h, s, d}) + ", " + operand({b, h, s, e});
    if (!one_in(4)) {
      std::vector<int64_t> mask{b, h, l, s};
      for (size_t i = 0; i < 3; ++i)
        if (one_in(3)) mask[i] = 1;
      if (one_in(3)) mask.erase(mask.begin(), mask.begin() + 2);
      list += ", " + operand(mask);
    }
    return node("attention(" + list + "){scale=0.25}");
  }

  std::string epilogue(const std::string& y) {
    if (one_in(3))
      return node(pick({"relu", "gelu", "silu", "tanh", "hardswish", "neg", "abs"}) + std::string("(") + y +
                  ")");
    std::vector<int64_t> shape = shape_;
    switch (rng_() % 5) {
      case 0: break;
      case 1:  // along one axis
        for (size_t i = 0, kept = rng_() % shape.size(); i < shape.size(); ++i)
          if (i != kept) shape[i] = 1;
        break;
      case 2:  // a vector, sometimes of size 1
        shape = {one_in(4) ? 1 : shape.back()};
        break;
      default:
        for (int64_t& n : shape)
          if (one_in(2)) n = 1;
    }
    if (one_in(4)) {
      const size_t less = rng_() % (shape.size() + 1);
      shape.erase(shape.begin(), shape.begin() + static_cast<long>(less));
    }
    const std::string row = pick({"add", "add", "mul", "sub"}), other = operand(shape);
    return node(row + "(" + (row != "sub" && one_in(2) ? other + ", " + y : y + ", " + other) + ")");
  }

  // Strides of the output: permuted, with gaps, or both.
  std::string output_strides() {
    std::vector<size_t> order(shape_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (one_in(2)) std::shuffle(order.begin(), order.end(), rng_);
    std::vector<int64_t> strides(shape_.size());
    int64_t step = pick<int64_t>({1, 1, 2});
    for (size_t at = order.size(); at-- > 0;) {
      strides[order[at]] = step;
      step *= shape_[order[at]] + pick<int64_t>({0, 0, 3});
    }
    std::string text;
    for (int64_t s : strides) text += (text.empty() ? "" : ",") + std::to_string(s);
    return " strides=[" + text + "]";
  }

  std::mt19937 rng_;
  StridedInputs in_;
  DType dtype_;
  std::vector<int64_t> shape_;  // of the result so far
};

}  // namespace tenon
