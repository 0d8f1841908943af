// See problem.h.
#include "backends/onednn/problem.h"

#include <algorithm>
#include <bit>

namespace tenon::onednn {
namespace {

Array array(const Operand& o, const Sizes& sizes, int operand) {
  Array a{library::at_sizes(o, sizes)};
  a.operand = operand;
  return a;
}

void insert_axis(Array& a, size_t at) {
  a.dims.insert(a.dims.begin() + static_cast<long>(at), 1);
  a.strides.insert(a.strides.begin() + static_cast<long>(at), 0);
}
void erase_axis(Array& a, size_t at) {
  a.dims.erase(a.dims.begin() + static_cast<long>(at));
  a.strides.erase(a.strides.begin() + static_cast<long>(at));
}

// Whether an array allows the axes `at` and `at + 1` to become one: it has size 1 along both, or it has the full sizes and one
// stride steps through both.
bool merges(const Array& a, size_t at, const std::vector<int64_t>& full) {
  if (a.dims[at] == 1 && a.dims[at + 1] == 1) return true;
  return a.dims[at] == full[at] && a.dims[at + 1] == full[at + 1] &&
         a.strides[at] == a.strides[at + 1] * a.dims[at + 1];
}
void merge(Array& a, size_t at) {
  a.dims[at + 1] *= a.dims[at];
  erase_axis(a, at);
}

void lower_matmul(Problem& p) {
  Array &a = p.source, &b = p.weights, &c = p.output;
  const bool row = a.dims.size() == 1, column = b.dims.size() == 1;
  if (row) insert_axis(a, 0);
  if (column) insert_axis(b, 1);
  auto widen = [&](Array& y) {
    if (row) insert_axis(y, y.dims.size() - (column ? 0 : 1));
    if (column) insert_axis(y, y.dims.size());
  };
  widen(c);
  for (Array& o : p.others) widen(o);
  while (a.dims.size() < c.dims.size()) insert_axis(a, 0);
  while (b.dims.size() < c.dims.size()) insert_axis(b, 0);
  for (size_t i = 0; i + 2 < c.dims.size(); ++i) {
    if (a.strides[i] == 0) a.dims[i] = 1;
    if (b.strides[i] == 0) b.dims[i] = 1;
    // The library broadcasts one of the two operands along a batch axis, not both.
    if (a.dims[i] == 1 && b.dims[i] == 1) {
      a.dims[i] = c.dims[i];
      a.strides[i] = 0;
    }
  }
  const size_t k = a.dims.size() - 1;
  if (a.dims[k] == 0) {  // an empty sum: multiply zeros
    for (Array* x : {&a, &b}) {
      for (int64_t& d : x->dims) d = std::max<int64_t>(d, 1);
      x->strides = plain_strides(x->dims, false);
      x->zero = true;
      x->offset = 0;
    }
  }

  std::vector<Array*> all{&a, &b, &c};
  for (Array& o : p.others) all.push_back(&o);
  for (size_t i = 0; i + 2 < c.dims.size();) {
    const bool last = i + 3 == c.dims.size();
    const std::vector<int64_t> full = c.dims;
    if (full[i] == 1) {
      for (Array* x : all) erase_axis(*x, i);
    } else if (!last && std::all_of(all.begin(), all.end(), [&](Array* x) { return merges(*x, i, full); })) {
      for (Array* x : all) merge(*x, i);
    } else {
      ++i;
    }
  }
  // If all batches share one weight matrix, the batch axis is merged into the rows.
  while (c.dims.size() > 2) {
    const size_t i = c.dims.size() - 3;
    const std::vector<int64_t> full = c.dims;
    if (b.dims[i] != 1) break;
    bool even = true;
    for (Array* x : all)
      if (x != &b)
        even = even && (x != &a || a.dims[i] == full[i]) &&
               (full[i + 1] == 1 ||
                (x == &a ? a.strides[i] == a.strides[i + 1] * a.dims[i + 1] : merges(*x, i, full)));
    if (!even) break;
    for (Array* x : all) {
      if (x == &b)
        erase_axis(*x, i);
      else if (full[i + 1] == 1)
        erase_axis(*x, i + 1);
      else
        merge(*x, i);
    }
  }
}

// Whether a convolution, transposed or not, is pointwise: its window is one element at stride 1 without padding, so it multiplies
// each pixel by one matrix.
bool is_pointwise(const Problem& p) {
  return (p.form == Form::convolution || p.form == Form::deconvolution) && p.groups == 1 &&
         all_are(p.kernel, 1) && all_are(p.strides, 1) && all_are(p.low, 0) && all_are(p.high, 0);
}

// Turns a pointwise convolution into the product of [N, space, C] and [C, O]. The weights of a transposed one are [C, O] already.
void lower_pointwise(Problem& p, bool channels_last) {
  std::vector<Array*> images{&p.source, &p.output};
  for (Array& o : p.others) images.push_back(&o);
  if (!channels_last)
    for (Array* a : images)
      for (auto* v : {&a->dims, &a->strides}) std::rotate(v->begin() + 1, v->begin() + 2, v->end());
  Array& w = p.weights;
  w.dims.resize(2);
  w.strides.resize(2);
  if (p.form == Form::convolution)
    for (auto* v : {&w.dims, &w.strides}) std::swap((*v)[0], (*v)[1]);
  p.form = Form::matmul;
  for (auto* list : {&p.kernel, &p.strides, &p.low, &p.high, &p.dilations}) list->clear();
  lower_matmul(p);
}

// N, space, C to N, C, space.
void channels_second(Array& a) {
  for (auto* v : {&a.dims, &a.strides}) std::rotate(v->begin() + 1, v->end() - 1, v->end());
}

// [O, C/g, k..] to [g, O/g, C/g, k..]
void split_groups(Array& w, int64_t groups) {
  if (groups == 1) return;
  w.dims.insert(w.dims.begin(), groups);
  w.strides.insert(w.strides.begin(), w.strides[0] * (w.dims[1] / groups));
  w.dims[1] /= groups;
}

void lower_weight_gradient(Problem& p, const Spec& spec) {
  if (spec.channels_last)
    for (Array* a : {&p.source, &p.weights}) channels_second(*a);
  split_groups(p.output, p.groups);
  p.output.any = true;
  if (p.source.count() > 0 && p.weights.count() > 0) return;
  // An empty sum: one image of zeros, of the size of one window.
  std::fill(p.low.begin(), p.low.end(), 0);
  p.high = p.low;
  for (Array* a : {&p.source, &p.weights}) {
    a->dims[0] = 1;
    for (size_t i = 0; i < p.kernel.size(); ++i)
      a->dims[2 + i] = a == &p.source ? p.dilations[i] * (p.kernel[i] - 1) + 1 : 1;
    a->strides = plain_strides(a->dims, true);
    a->offset = 0;
    a->zero = true;
  }
}

void lower_spatial(Problem& p, const Spec& spec) {
  if (spec.channels_last) {
    channels_second(p.source);
    channels_second(p.output);
    for (Array& o : p.others) channels_second(o);
  }
  if (p.form == Form::convolution || p.form == Form::deconvolution) {
    Array& w = p.weights;
    const int64_t g = p.groups;
    if (w.count() == 0) {  // an empty sum: each group has one channel of zeros
      w.dims[p.form == Form::deconvolution ? 0 : 1] = p.form == Form::deconvolution ? g : 1;
      w.strides = plain_strides(w.dims, false);
      p.source.dims[1] = g;
      w.zero = p.source.zero = true;
      w.offset = 0;
    }
    if (p.form == Form::deconvolution) {  // [C, O/g, k..] to [g, O/g, C/g, k..]
      w.dims.insert(w.dims.begin(), g);
      w.strides.insert(w.strides.begin(), w.strides[0] * (w.dims[1] / g));
      w.dims[1] /= g;
      std::swap(w.dims[1], w.dims[2]);
      std::swap(w.strides[1], w.strides[2]);
      if (g == 1) erase_axis(w, 0);
    } else {
      split_groups(w, g);
    }
    w.any = true;
  }
  // Along a source axis of size 0 all windows lie in the padding: one zero replaces one element of the padding.
  for (size_t i = 2; i < p.source.dims.size(); ++i) {
    if (p.source.dims[i] > 0) continue;
    p.source.zero = true;
    p.source.dims[i] = 1;
    --(p.high[i - 2] > 0 ? p.high : p.low)[i - 2];
  }
  if (p.source.zero) {
    p.source.strides = plain_strides(p.source.dims, false);
    p.source.offset = 0;
  }
}

// Gives axes of size 1 the strides that the library expects: those of a dense array, and for the first axis a stride beyond all
// other elements, whichever axis is innermost.
void tidy(Array& a) {
  const size_t n = a.dims.size();
  int64_t all = 1;
  for (size_t i = 1; i < n; ++i) all = std::max(all, a.dims[i] * a.strides[i]);
  for (size_t i = n; i-- > 0;) {
    if (a.dims[i] != 1) continue;
    a.strides[i] = i + 1 == n ? 1 : i == 0 ? all : std::max<int64_t>(a.dims[i + 1] * a.strides[i + 1], 1);
    if (i + 1 == n && n > 1 && a.dims[i - 1] != 1 && a.strides[i - 1] < 1) a.strides[i] = 1;
  }
  if (n > 1 && a.dims[n - 2] == 1 && a.strides[n - 1] > 1) a.strides[n - 2] = 1;
}

}  // namespace

Problem at_sizes(const Spec& spec, const Sizes& sizes) {
  Problem p;
  p.form = spec.form;
  p.threads = std::min(sizes.threads, default_parallel().threads());
  p.output = array(spec.output, sizes, -1);
  p.empty = p.output.count() == 0;
  if (p.empty) return p;
  p.source = array(spec.operands[0], sizes, 0);
  const bool weighted = spec.form != Form::average && spec.form != Form::pointwise;
  if (weighted) p.weights = array(spec.operands[1], sizes, 1);
  for (const PostOp& post : spec.post_ops) {
    p.post_ops.push_back(post);
    if (post.operand < 0) continue;
    p.post_ops.back().operand = static_cast<int>(p.others.size());
    p.others.push_back(array(spec.operands[static_cast<size_t>(post.operand)], sizes, post.operand));
    Array& o = p.others.back();
    for (size_t i = 0; i < o.dims.size(); ++i)
      if (o.strides[i] == 0) o.dims[i] = 1;
  }
  p.kernel = sizes.eval(spec.kernel);
  p.strides = sizes.eval(spec.strides);
  p.low = sizes.eval(spec.low);
  p.high = sizes.eval(spec.high);
  p.dilations = sizes.eval(spec.dilations);
  p.groups = sizes.eval(spec.groups);
  p.include_pad = spec.include_pad;
  if (p.form == Form::matmul)
    lower_matmul(p);
  else if (is_pointwise(p) && !spec.operands[1].constant)
    lower_pointwise(
        p, spec.channels_last);  // reads the weights in place; a convolution would reorder them at each call
  else if (p.form == Form::weight_gradient)
    lower_weight_gradient(p, spec);
  else if (p.form != Form::pointwise)
    lower_spatial(p, spec);
  if (p.output.dims.empty())
    for (Array* x : {&p.source, &p.output}) insert_axis(*x, 0);
  for (Array& o : p.others)
    if (o.dims.empty()) insert_axis(o, 0);

  // If the first post-op adds a vector along the channels, it becomes the library's bias argument. The library (3.2) computes products of
  // f16 with a bias of f16 by reference code, but not those with a post-op.
  const bool takes_bias = weighted && (p.form != Form::matmul || p.output.dtype != DType::f16);
  if (takes_bias && !p.post_ops.empty() && p.post_ops[0].algorithm == dnnl::algorithm::binary_add) {
    const Array& o = p.others[0];
    const size_t channel = p.form == Form::matmul ? o.dims.size() - 1 : 1;
    bool is_bias = o.dims[channel] == p.output.dims[channel] && o.dtype == p.output.dtype;
    for (size_t i = 0; i < o.dims.size(); ++i) is_bias = is_bias && (i == channel || o.dims[i] == 1);
    if (is_bias) {
      p.bias = o;
      p.others.erase(p.others.begin());
      p.post_ops.erase(p.post_ops.begin());
      for (PostOp& post : p.post_ops)
        if (post.operand >= 0) --post.operand;
      if (p.form != Form::matmul) {
        p.bias.dims = {p.bias.dims[1]};
        p.bias.strides = {p.bias.strides[1]};
      }
    }
  }
  if (p.form == Form::matmul && p.output.dims.size() == 2 && !p.weights.zero && spec.operands[1].constant)
    p.weights.any = true;
  for (Array* x : {&p.source, &p.weights, &p.bias, &p.output}) tidy(*x);
  for (Array& o : p.others) tidy(o);
  return p;
}

std::optional<Problem> as_convolution(const Problem& matmul) {
  Problem p = matmul;
  if (p.form != Form::matmul || !p.weights.any || p.output.dims.size() != 2) return std::nullopt;
  auto pixels = [](Array& a) {  // [rows, columns] to [1, columns, 1, rows]
    const int64_t rows = a.dims[0], step = a.strides[0];
    a.dims = {1, a.dims[1], 1, rows};
    a.strides = {rows * step, a.strides[1], rows * step, step};
  };
  pixels(p.source);
  pixels(p.output);
  for (Array& o : p.others) pixels(o);
  Array& w = p.weights;  // [K, N] to [N, K, 1, 1]
  w.dims = {w.dims[1], w.dims[0], 1, 1};
  w.strides = {w.strides[1], w.strides[0], 1, 1};
  if (p.bias.present()) {
    p.bias.dims = {p.bias.dims[1]};
    p.bias.strides = {p.bias.strides[1]};
  }
  p.form = Form::convolution;
  p.strides = p.dilations = {1, 1};
  p.low = p.high = {0, 0};
  return p;
}

std::optional<Problem> in_one_batch(const Problem& matmul) {
  Problem p = matmul;
  if (p.form != Form::matmul || p.output.dims.size() < 3) return std::nullopt;
  std::vector<Array*> all{&p.source, &p.weights, &p.output};
  if (p.bias.present()) all.push_back(&p.bias);
  for (Array& o : p.others) all.push_back(&o);
  for (Array* x : all) {
    insert_axis(*x, 0);
    tidy(*x);
  }
  return p;
}

std::string Problem::key() const {
  std::string key;
  auto put = [&](int64_t v) { library::add_to_key(key, v); };
  auto put_array = [&](const Array& a) {
    library::add_to_key(key, a.dims);
    if (a.any)
      put(-1);
    else
      library::add_to_key(key, a.strides);
    put(static_cast<int64_t>(a.dtype));
  };
  put(static_cast<int64_t>(form));
  put(threads);
  put(include_pad);
  for (const Array* a : {&source, &weights, &bias, &output}) put_array(*a);
  for (const Array& a : others) put_array(a);
  for (const auto* list : {&kernel, &strides, &low, &high, &dilations}) library::add_to_key(key, *list);
  for (const PostOp& post : post_ops) {
    put(static_cast<int64_t>(post.algorithm));
    put(std::bit_cast<int32_t>(post.alpha));
    put(std::bit_cast<int32_t>(post.beta));
    put(post.operand);
  }
  return key;
}

}  // namespace tenon::onednn
