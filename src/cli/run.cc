// tenon run: compiles the text of a graph, runs it on .npy files or random tensors, and prints a line per
// tensor. Tested by tests/cli_test.py.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "src/cli/npy.h"
#include "src/cli/tensors.h"
#include "src/cli/verbs.h"
#include "src/runtime/difference.h"
#include "src/runtime/program.h"

namespace tenon::cli {
namespace {

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

class Session {
 public:
  Session(const Model& model, const RunArgs& args)
      : g_(model.graph), args_(args), tensors_(g_, args.inputs, args.dims, model.tensors, args.seed) {}

  Status prepare() { return tensors_.prepare(); }

  Status execute() {
    auto start = std::chrono::steady_clock::now();
    auto ms = [&] {
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    };
    TENON_ASSIGN(std::shared_ptr<Program> program, Program::make(g_, options(), {}));
    print_line(fmt::format("compiled in {:.2f} ms", ms()));
    const std::vector<Tensor> in = tensors_.inputs(), out = tensors_.outputs();
    for (int i = 0; i < args_.repeat; ++i) {
      start = std::chrono::steady_clock::now();
      TENON_TRY(program->run(in, out));
    }
    print_line(fmt::format("ran in {:.4f} ms", ms()));
    if (args_.explain) print_line(program->explain(false));
    return {};
  }

  // Whether program and evaluator agree.
  Result<bool> compare() const {
    const std::vector<HostTensor> inputs = tensors_.input_values();
    TENON_ASSIGN(const std::optional<Difference> difference, find_difference(g_, inputs, options()));
    print_line(difference ? tenon::report(*difference) : "the program computes what the evaluator does");
    return !difference;
  }

  Status report() const {
    const std::vector<HostTensor> inputs = tensors_.input_values();
    std::vector<HostTensor> results;
    for (size_t i = 0; i < g_.outputs.size(); ++i) results.push_back(tensors_.output_value(i));
    for (size_t i = 0; i < inputs.size(); ++i) line("input ", g_.inputs[i].value, inputs[i]);
    for (size_t i = 0; i < results.size(); ++i) line("output", g_.outputs[i].value, results[i]);
    if (args_.output_dir.empty()) return {};
    for (size_t i = 0; i < results.size(); ++i)
      TENON_TRY(write_npy(args_.output_dir + "/" + label(g_, g_.outputs[i].value) + ".npy", results[i]));
    return {};
  }

 private:
  ProgramOptions options() const {
    ProgramOptions wanted;
    wanted.backends = args_.backends;
    wanted.without = args_.without;
    wanted.budget = args_.budget;
    return wanted;
  }

  void line(const char* what, ValueId v, const HostTensor& t) const {
    print_line(fmt::format("{} {:<8} {:<16} {}", what, g_.value_name(v), print_sizes(t), summary(t)));
  }

  const Graph& g_;
  const RunArgs& args_;
  Tensors tensors_;
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
  model->graph = without_updates(std::move(model->graph));  // updated inputs are printed as outputs
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
