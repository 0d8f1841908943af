// See tensors.h. Tested by tests/cli_test.py.
#include "src/cli/tensors.h"

#include <algorithm>
#include <new>
#include <random>

#include "src/base/text.h"
#include "src/cli/npy.h"

namespace tenon::cli {
namespace {

// Draws floats from a normal distribution, and integers from `lowest` and `lowest` + 1.
HostTensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, int64_t lowest) {
  HostTensor t(dtype, std::move(shape));
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < t.count(); ++i) {
    if (is_float(dtype))
      t.set(i, {normal(rng), 0});
    else
      t.set(i, {0, lowest + static_cast<int64_t>(rng() % 2)});
  }
  return t;
}

// Whether a node divides by the value and fails if it is 0.
bool is_divisor(const Graph& g, ValueId v) {
  return std::ranges::any_of(g.nodes, [&](const Node& n) {
    return n.inputs.size() == 2 && n.inputs[1] == v && op(n.op).fault.what == "integer division by zero";
  });
}

}  // namespace

std::string label(const Graph& g, ValueId v) {
  return g.node(v).name.empty() ? std::to_string(v) : g.node(v).name;
}

std::string print_sizes(const HostTensor& t) {
  std::string s = std::string(name(t.dtype)) + "[";
  for (size_t i = 0; i < t.shape.size(); ++i) s += (i ? "," : "") + std::to_string(t.shape[i]);
  return s + "]";
}

Status Tensors::prepare() {
  try {
    return prepare_tensors();
  } catch (const std::bad_alloc&) {
    return environment(at_ + ": out of memory");
  }
}

std::vector<Tensor> Tensors::tensors(size_t begin, size_t end) {
  std::vector<Tensor> out;
  for (size_t i = begin; i < end; ++i)
    out.push_back({placed_[i].data(), placed_[i].dtype, placed_[i].shape, placed_[i].strides});
  return out;
}

std::vector<HostTensor> Tensors::input_values() const {
  std::vector<HostTensor> values;
  for (const auto& t : given_) values.push_back(*t);
  return values;
}

HostTensor Tensors::output_value(size_t i) const {
  const Placed& p = placed_[given_.size() + i];
  HostTensor value(p.dtype, p.shape);
  p.read(value);
  return value;
}

Status Tensors::prepare_tensors() {
  TENON_TRY(read_inputs());
  TENON_TRY(find_sizes());
  for (size_t i = 0; i < g_.inputs.size(); ++i) {
    const InputBinding& in = g_.inputs[i];
    if (!given_[i]) {
      TENON_ASSIGN(std::vector<int64_t> shape, sizes(g_.type(in.value).shape));
      TENON_TRY(look_at("input", in.value, shape));
      const int64_t least = is_divisor(g_, in.value) ? 1 : 0;  // 0 and 1 are valid indices
      given_[i] = random_tensor(g_.type(in.value).dtype, std::move(shape), seed_ * 1000003 + i, least);
      if (in.symbol) given_[i]->set(0, {0, values_[g_.dims->symbol_number(*in.symbol)]});
    }
    TENON_TRY(place(*given_[i], in.strides));
    placed_.back().write(*given_[i]);
    if (in.strides)
      placed_.back().read(*given_[i]);  // elements that share memory have the value written last
  }
  for (const OutputBinding& out : g_.outputs) {
    const TensorType& type = g_.type(out.value);
    TENON_ASSIGN(std::vector<int64_t> shape, sizes(type.shape));
    TENON_TRY(look_at("output", out.value, shape));
    TENON_TRY(place(HostTensor(type.dtype, std::move(shape)), out.strides));
  }
  return {};
}

Status Tensors::look_at(const char* what, ValueId v, const std::vector<int64_t>& shape) {
  const DType dtype = g_.type(v).dtype;
  std::string sizes;
  for (int64_t n : shape) sizes += (sizes.empty() ? "" : ",") + std::to_string(n);
  at_ = std::string(what) + " " + g_.value_name(v) + ", " + std::string(name(dtype)) + "[" + sizes + "]";
  return element_bytes(dtype, shape) ? Status() : invalid(at_ + ", has more bytes than any memory");
}
Status Tensors::place(const HostTensor& t, const std::optional<Dims>& declared) {
  TENON_ASSIGN(std::vector<int64_t> strides, strides_of(t, declared));
  auto placed = Placed::make(t.dtype, t.shape, std::move(strides));
  if (!placed.ok()) return placed.status().at(at_);
  placed_.push_back(std::move(*placed));
  return {};
}

Status Tensors::read_inputs() {
  given_.resize(g_.inputs.size());
  for (size_t i = 0; i < g_.inputs.size(); ++i)
    if (const auto it = known_tensors_.find(label(g_, g_.inputs[i].value)); it != known_tensors_.end())
      given_[i] = it->second;
  for (const std::string& item : files_) {
    const size_t equals = item.find('=');
    if (equals == item.npos) return invalid("--input " + item + ": expected NAME=FILE.npy");
    std::string wanted = item.substr(0, equals);
    if (!wanted.empty() && wanted[0] == '%') wanted.erase(0, 1);
    size_t i = 0;
    while (i < g_.inputs.size() && label(g_, g_.inputs[i].value) != wanted) ++i;
    if (i == g_.inputs.size()) {
      Nearest nearest(wanted);
      for (const InputBinding& in : g_.inputs) nearest.offer(label(g_, in.value));
      return invalid("the graph has no input " + wanted + nearest.hint());
    }
    TENON_ASSIGN(HostTensor t, read_npy(item.substr(equals + 1)));
    const TensorType& type = g_.type(g_.inputs[i].value);
    if (is_narrow(type.dtype) && type.dtype != DType::f16 && t.dtype == DType::f32) {
      HostTensor narrow(type.dtype, t.shape);
      for (int64_t k = 0; k < t.count(); ++k) narrow.set(k, t.get(k));
      t = std::move(narrow);
    }
    if (t.dtype != type.dtype || t.rank() != type.rank())
      return invalid("input %" + wanted + " is " + g_.print_type(type) + ", the file has " + print_sizes(t));
    given_[i] = std::move(t);
  }
  return {};
}

Status Tensors::find_sizes() {
  const DimTable& dims = *g_.dims;
  values_.assign(dims.symbol_count(), 0);
  known_.assign(dims.symbol_count(), false);
  for (const std::string& item : dims_) {
    const size_t equals = item.find('=');
    const auto symbol = dims.find_symbol(item.substr(0, equals));
    if (!symbol) return invalid("the graph has no size " + item.substr(0, equals));
    const auto value = read_int(item.substr(equals + 1));
    if (!value || *value < 0) return invalid("--dim " + item + ": not a size");
    values_[dims.symbol_number(*symbol)] = *value;
    known_[dims.symbol_number(*symbol)] = true;
  }
  for (size_t i = 0; i < given_.size(); ++i) {
    const Dims& shape = g_.type(g_.inputs[i].value).shape;
    for (size_t a = 0; given_[i] && a < shape.size(); ++a) {
      if (!dims.is_symbol(shape[a]) || known_[dims.symbol_number(shape[a])]) continue;
      values_[dims.symbol_number(shape[a])] = given_[i]->shape[a];
      known_[dims.symbol_number(shape[a])] = true;
    }
    if (given_[i] && g_.inputs[i].symbol) {
      const int s = dims.symbol_number(*g_.inputs[i].symbol);
      if (!known_[s] && given_[i]->count() == 1) values_[s] = given_[i]->get(0).i, known_[s] = true;
    }
  }
  return {};
}

Result<std::vector<int64_t>> Tensors::sizes(const Dims& dims) const {
  std::vector<int64_t> out;
  for (Dim d : dims) {
    std::vector<Dim> symbols;
    g_.dims->collect_symbols(d, symbols);
    for (Dim s : symbols)
      if (!known_[g_.dims->symbol_number(s)])
        return invalid("the size " + g_.dims->symbol_name(s) + " is not known: give --dim " +
                       g_.dims->symbol_name(s) + "=4");
    const auto n = g_.dims->eval(d, values_);
    if (!n || *n < 0) return invalid("the size " + g_.dims->print(d) + " is out of range");
    out.push_back(*n);
  }
  return out;
}

Result<std::vector<int64_t>> Tensors::strides_of(const HostTensor& t,
                                                 const std::optional<Dims>& declared) const {
  if (!declared) return dense_strides(t.shape);
  std::vector<int64_t> out;
  for (Dim d : *declared) {
    const auto n = g_.dims->eval(d, values_);
    if (!n) return invalid("the stride " + g_.dims->print(d) + " overflows");
    out.push_back(*n);
  }
  return out;
}

}  // namespace tenon::cli
