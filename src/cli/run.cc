// tenon run: compiles the text of a graph, runs it on .npy files or random tensors, and prints a line per
// tensor. Tested by tests/cli_test.py.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <new>
#include <random>

#include "src/base/text.h"
#include "src/cli/npy.h"
#include "src/cli/verbs.h"
#include "src/ops/eval/eval.h"
#include "src/ops/eval/placed.h"
#include "src/runtime/difference.h"
#include "src/runtime/program.h"

namespace tenon::cli {
namespace {

std::string label(const Graph& g, ValueId v) {
  return g.node(v).name.empty() ? std::to_string(v) : g.node(v).name;
}

std::string print_sizes(const HostTensor& t) {
  std::string s = std::string(name(t.dtype)) + "[";
  for (size_t i = 0; i < t.shape.size(); ++i) s += (i ? "," : "") + std::to_string(t.shape[i]);
  return s + "]";
}

std::string summary(const HostTensor& t) {
  const int64_t n = t.count();
  if (n == 0) return "empty";
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t finite = 0, nans = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = t.number(i);
    if (std::isnan(x))
      ++nans;
    else
      low = std::min(low, x), high = std::max(high, x);
    if (std::isfinite(x)) sum += x, ++finite;
  }
  std::string s = nans == n ? "" : fmt::format("min {:.6g}  max {:.6g}", low, high);
  if (finite > 0) s += fmt::format("  mean {:.6g}", sum / static_cast<double>(finite));
  if (nans > 0) s += fmt::format("  nan {}", nans);
  s += "  [";
  for (int64_t i = 0; i < std::min<int64_t>(n, 4); ++i)
    s += fmt::format("{}{:.6g}", i ? " " : "", t.number(i));
  return s + (n > 4 ? " ...]" : "]");
}

HostTensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  HostTensor t(dtype, std::move(shape));
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < t.count(); ++i) {
    if (is_float(dtype))
      t.set(i, {normal(rng), 0});
    else
      t.set(i, {0, static_cast<int64_t>(rng() % 2)});  // 0 or 1: valid indices, but 0 is no divisor
  }
  return t;
}

class Session {
 public:
  Session(const Model& model, const RunArgs& args) : g_(model.graph), args_(args), tensors_(model.tensors) {}

  Status prepare() {
    try {
      return prepare_tensors();
    } catch (const std::bad_alloc&) {
      return environment(at_ + ": out of memory");
    }
  }

  Status execute() {
    auto start = std::chrono::steady_clock::now();
    auto ms = [&] {
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    };
    TENON_ASSIGN(std::shared_ptr<Program> program, Program::make(g_, options(), {}));
    print_line(fmt::format("compiled in {:.2f} ms", ms()));
    std::vector<Tensor> in, out;
    for (size_t i = 0; i < placed_.size(); ++i) {
      Placed& p = placed_[i];
      (i < given_.size() ? in : out).push_back({p.data(), p.dtype, p.shape, p.strides});
    }
    for (int i = 0; i < args_.repeat; ++i) {
      start = std::chrono::steady_clock::now();
      TENON_TRY(program->run(in, out));
    }
    print_line(fmt::format("ran in {:.4f} ms", ms()));
    for (size_t i = 0; i < results_.size(); ++i) placed_[given_.size() + i].read(results_[i]);
    if (args_.explain) print_line(program->explain(false));
    return {};
  }

  // Whether program and evaluator agree.
  Result<bool> compare() const {
    std::vector<HostTensor> inputs;
    for (const auto& t : given_) inputs.push_back(*t);
    TENON_ASSIGN(const std::optional<Difference> difference, find_difference(g_, inputs, options()));
    print_line(difference ? tenon::report(*difference) : "the program computes what the evaluator does");
    return !difference;
  }

  Status report() const {
    for (size_t i = 0; i < given_.size(); ++i) line("input ", g_.inputs[i].value, *given_[i]);
    for (size_t i = 0; i < results_.size(); ++i) line("output", g_.outputs[i].value, results_[i]);
    if (args_.output_dir.empty()) return {};
    for (size_t i = 0; i < results_.size(); ++i)
      TENON_TRY(write_npy(args_.output_dir + "/" + label(g_, g_.outputs[i].value) + ".npy", results_[i]));
    return {};
  }

 private:
  ProgramOptions options() const {
    ProgramOptions wanted;
    wanted.backends = args_.backends;
    wanted.without = args_.without;
    return wanted;
  }

  Status prepare_tensors() {
    TENON_TRY(read_inputs());
    TENON_TRY(find_sizes());
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      const InputBinding& in = g_.inputs[i];
      if (!given_[i]) {
        TENON_ASSIGN(std::vector<int64_t> shape, sizes(g_.type(in.value).shape));
        TENON_TRY(look_at("input", in.value, shape));
        given_[i] = random_tensor(g_.type(in.value).dtype, std::move(shape), args_.seed * 1000003 + i);
        if (in.symbol) given_[i]->set(0, {0, values_[g_.dims->symbol_number(*in.symbol)]});
      }
      TENON_TRY(place(*given_[i], in.strides));
      placed_.back().write(*given_[i]);
    }
    for (const OutputBinding& out : g_.outputs) {
      const TensorType& type = g_.type(out.value);
      TENON_ASSIGN(std::vector<int64_t> shape, sizes(type.shape));
      TENON_TRY(look_at("output", out.value, shape));
      results_.emplace_back(type.dtype, std::move(shape));
      TENON_TRY(place(results_.back(), out.strides));
    }
    return {};
  }

  // Sets the tensor that later messages name.
  Status look_at(const char* what, ValueId v, const std::vector<int64_t>& shape) {
    const DType dtype = g_.type(v).dtype;
    std::string sizes;
    for (int64_t n : shape) sizes += (sizes.empty() ? "" : ",") + std::to_string(n);
    at_ = std::string(what) + " " + g_.value_name(v) + ", " + std::string(name(dtype)) + "[" + sizes + "]";
    return element_bytes(dtype, shape) ? Status() : invalid(at_ + ", has more bytes than any memory");
  }
  Status place(const HostTensor& t, const std::optional<Dims>& declared) {
    TENON_ASSIGN(std::vector<int64_t> strides, strides_of(t, declared));
    auto placed = Placed::make(t.dtype, t.shape, std::move(strides));
    if (!placed.ok()) return placed.status().at(at_);
    placed_.push_back(std::move(*placed));
    return {};
  }

  void line(const char* what, ValueId v, const HostTensor& t) const {
    print_line(fmt::format("{} {:<8} {:<16} {}", what, g_.value_name(v), print_sizes(t), summary(t)));
  }

  Status read_inputs() {
    given_.resize(g_.inputs.size());
    for (size_t i = 0; i < g_.inputs.size(); ++i)
      if (const auto it = tensors_.find(label(g_, g_.inputs[i].value)); it != tensors_.end())
        given_[i] = it->second;
    for (const std::string& item : args_.inputs) {
      const size_t equals = item.find('=');
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
        return invalid("input %" + wanted + " is " + g_.print_type(type) + ", the file has " +
                       print_sizes(t));
      given_[i] = std::move(t);
    }
    return {};
  }

  // Symbols come from --dim, then from the shapes of the files; the program checks that they agree.
  Status find_sizes() {
    const DimTable& dims = *g_.dims;
    values_.assign(dims.symbol_count(), 0);
    known_.assign(dims.symbol_count(), false);
    for (const std::string& item : args_.dims) {
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

  Result<std::vector<int64_t>> sizes(const Dims& dims) const {
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

  Result<std::vector<int64_t>> strides_of(const HostTensor& t, const std::optional<Dims>& declared) const {
    if (!declared) return dense_strides(t.shape);
    std::vector<int64_t> out;
    for (Dim d : *declared) {
      const auto n = g_.dims->eval(d, values_);
      if (!n) return invalid("the stride " + g_.dims->print(d) + " overflows");
      out.push_back(*n);
    }
    return out;
  }

  const Graph& g_;
  const RunArgs& args_;
  const std::map<std::string, HostTensor>& tensors_;
  std::vector<std::optional<HostTensor>> given_;  // inputs
  std::vector<HostTensor> results_;
  std::vector<Placed> placed_;  // inputs, then outputs
  std::vector<int64_t> values_;
  std::vector<bool> known_;
  std::string at_ = "the inputs";
};

// The first argument that should be name=value and is not; "" if there is none.
std::string not_a_pair(const RunArgs& args) {
  for (const auto* list : {&args.inputs, &args.dims})
    for (const std::string& item : *list)
      if (item.find('=') == item.npos) return item;
  return "";
}

// Returns the exit status of `f`, which gets a session with prepared tensors.
template <class F>
int with_session(const RunArgs& args, F f) {
  if (const std::string item = not_a_pair(args); !item.empty())
    return misuse("'" + item + "' is not name=value");
  RunArgs left = args;
  auto model = read_model(args.file, left.inputs, args.params);
  if (!model.ok()) return fail(model.status());
  Session session(*model, left);
  if (const Status status = session.prepare(); !status.ok()) return fail(status);
  return f(session);
}

}  // namespace

int verify(const RunArgs& args) {
  return with_session(args, [](const Session& session) {
    const auto same = session.compare();
    if (!same.ok()) return fail(same.status());
    return *same ? kDone : kFailed;
  });
}

int run(const RunArgs& args) {
  return with_session(args, [](Session& session) {
    Status status = session.execute();
    if (status.ok()) status = session.report();
    return status.ok() ? kDone : fail(status);
  });
}

}  // namespace tenon::cli
