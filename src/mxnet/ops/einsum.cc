// The row of einsum: pairs of operands are contracted from the left, each as a product of matrices.
#include <algorithm>

#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace einsum_ops {
namespace {

// A value with a letter per axis.
struct Labelled {
  ValueId v;
  std::string labels;
};

bool has(std::string_view labels, char l) { return labels.find(l) != labels.npos; }

// Sums the axes whose letters are not in `kept`.
Labelled summed(Call& c, const Labelled& x, std::string_view kept) {
  Dims axes;
  std::string left;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (has(kept, x.labels[i]))
      left += x.labels[i];
    else
      axes.push_back(Dim(static_cast<int64_t>(i)));
  }
  if (axes.empty()) return x;
  return {c(ops::sum, {x.v}, {{"axes", axes}}), left};
}

// The axes in the given order, which has the same letters.
ValueId arranged(Call& c, const Labelled& x, std::string_view order) {
  Dims perm;
  for (const char l : order) perm.push_back(Dim(static_cast<int64_t>(x.labels.find(l))));
  return c.transpose(x.v, perm);
}

Dims sizes(Call& c, const Labelled& a, const Labelled& b, std::string_view labels) {
  Dims out;
  for (const char l : labels)
    out.push_back(has(a.labels, l) ? c.shape(a.v)[a.labels.find(l)] : c.shape(b.v)[b.labels.find(l)]);
  return out;
}

// The product of two values, summed over what neither later operands nor the result need.
Labelled contract(Call& c, Labelled a, Labelled b, const std::string& needed) {
  a = summed(c, a, needed + b.labels);
  b = summed(c, b, needed + a.labels);
  std::string batch, inner, left, right;
  for (const char l : a.labels) (!has(b.labels, l) ? left : has(needed, l) ? batch : inner) += l;
  for (const char l : b.labels)
    if (!has(a.labels, l)) right += l;
  auto size = [&](std::string_view labels) { return c.b.dims().product(sizes(c, a, b, labels)); };
  const ValueId x = c.reshape(arranged(c, a, batch + left + inner), {size(batch), size(left), size(inner)});
  const ValueId y = c.reshape(arranged(c, b, batch + inner + right), {size(batch), size(inner), size(right)});
  const std::string out = batch + left + right;
  return {c.reshape(c(ops::matmul, {x, y}), sizes(c, a, b, out)), out};
}

// The letters of the operands, and at the end those of the result.
std::vector<std::string> read_subscripts(std::string_view text) {
  std::vector<std::string> parts(1);
  bool arrow = false;
  std::string all;
  for (size_t i = 0; i < text.size(); ++i) {
    const char l = text[i];
    if (l == ' ') continue;
    if (l == ',' && !arrow) {
      parts.emplace_back();
    } else if (l == '-' && i + 1 < text.size() && text[i + 1] == '>' && !arrow) {
      arrow = true, ++i;
      parts.emplace_back();
    } else if ((l >= 'a' && l <= 'z') || (l >= 'A' && l <= 'Z')) {
      if (has(parts.back(), l))
        throw StatusError(unsupported("a letter twice in one term is not translated"));
      parts.back() += l;
      if (!arrow) all += l;
    } else {
      throw StatusError(unsupported("the subscripts have more than letters, commas and an arrow"));
    }
  }
  if (arrow) return parts;
  std::string out;  // the letters that occur once, in order
  for (const char l : all)
    if (std::count(all.begin(), all.end(), l) == 1) out += l;
  std::sort(out.begin(), out.end());
  parts.push_back(out);
  return parts;
}

Values einsum(Call& c) {
  std::vector<std::string> parts = read_subscripts(c.a.text("subscripts"));
  const std::string out = parts.back();
  parts.pop_back();
  if (parts.size() != c.in.size())
    throw StatusError(invalid("the subscripts have another number of operands"));
  std::string all;
  for (size_t i = 0; i < parts.size(); ++i) {
    all += parts[i];
    if (static_cast<int>(parts[i].size()) != c.rank(c.in[i]))
      throw StatusError(invalid("operand " + std::to_string(i) + " does not have " +
                                std::to_string(parts[i].size()) + " axes"));
  }
  for (const char l : out)
    if (!has(all, l)) throw StatusError(invalid("the result has a letter that no operand has"));
  Labelled x{c.in[0], parts[0]};
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string needed = out;
    for (size_t k = i + 1; k < parts.size(); ++k) needed += parts[k];
    x = contract(c, x, {c.in[i], parts[i]}, needed);
  }
  x = summed(c, x, out);
  return {arranged(c, x, out)};
}

const Row kRows[] = {
    {.names = "_npi_einsum",
     .operands = "data*",
     .attrs = "num_args:int subscripts:text= optimize:any=0",
     .body = einsum},
};

}  // namespace
}  // namespace einsum_ops

std::span<const Row> einsum_rows() { return einsum_ops::kRows; }

}  // namespace tenon::mxnet
