// check_program: compares a compiled Program with the evaluator by the accuracy rule (src/runtime/accuracy.h).
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/ops/rules/rules.h"
#include "src/runtime/accuracy.h"
#include "src/runtime/program.h"

namespace tenon {

struct CheckResult {
  enum Kind { right, wrong, unsupported } kind = right;
  std::string message;
  int64_t elements = 0, says_nothing = 0;
  int64_t in_place = 0;   // pairs of an output and an input that shared a buffer
  int64_t workspace = 0;  // bytes
  bool uses_donated = false;
};

namespace check_help {

// A tensor with the strides of its binding, with bytes of 0xA5 between and around the elements.
struct Strided {
  std::vector<int64_t> shape, strides;
  std::vector<std::byte> bytes;
  DType dtype = DType::f32;
  static constexpr size_t kMargin = 64;

  Strided(DType type, std::vector<int64_t> sizes, std::vector<int64_t> steps)
      : shape(std::move(sizes)), strides(std::move(steps)), dtype(type) {
    int64_t last = 0;
    bool none = false;
    for (size_t i = 0; i < shape.size(); ++i) {
      none = none || shape[i] == 0;
      last += (shape[i] - 1) * strides[i];
    }
    bytes.assign(2 * kMargin + static_cast<size_t>(none ? 0 : last + 1) * size_of(type), std::byte{0xA5});
  }
  Tensor tensor() { return {bytes.data() + kMargin, dtype, shape, strides}; }
  template <class F>
  void each(F f) const {
    int64_t i = 0;
    walk(shape, {strides},
         [&](const auto& at) { f(i++, kMargin + static_cast<size_t>(at[0]) * size_of(dtype)); });
  }
  void write(const HostTensor& t) {
    each(
        [&](int64_t i, size_t at) { std::memcpy(&bytes[at], &t.bytes[i * size_of(dtype)], size_of(dtype)); });
  }
  // Whether the bytes around the elements are those of `other`.
  bool same_margins(const Strided& other) const {
    return std::equal(bytes.begin(), bytes.begin() + kMargin, other.bytes.begin()) &&
           std::equal(bytes.end() - kMargin, bytes.end(), other.bytes.end() - kMargin);
  }
  // Reads the elements. False: a byte that belongs to no element has changed.
  bool read(HostTensor* t) const {
    std::vector<std::byte> rest = bytes;
    each([&](int64_t i, size_t at) {
      std::memcpy(&t->bytes[i * size_of(dtype)], &bytes[at], size_of(dtype));
      std::fill_n(&rest[at], size_of(dtype), std::byte{0xA5});
    });
    return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0xA5}; });
  }
};

inline std::vector<int64_t> steps_of(const DimTable& dims, const std::optional<Dims>& strides,
                                     const std::vector<int64_t>& shape, std::span<const int64_t> symbols) {
  if (!strides) return dense_strides(shape);
  std::vector<int64_t> out;
  for (Dim d : *strides) out.push_back(*dims.eval(d, symbols));
  return out;
}

}  // namespace check_help

// Compiles the graph and runs it twice. A difference, an error other than unsupported, or an InternalError is wrong.
// Along an axis of stride 0 all elements of an input equal the first; `inputs` are changed accordingly.
inline CheckResult check_program(const Graph& graph, std::vector<HostTensor>& inputs,
                                 const std::vector<bool>& frozen = {}, ProgramOptions options = {}) {
  using namespace check_help;
  CheckResult result;
  auto wrong = [&](std::string message) {
    result.kind = CheckResult::wrong;
    result.message = std::move(message);
    return result;
  };
  std::shared_ptr<Program> program;
  try {
    std::vector<std::vector<int64_t>> shapes;
    for (const HostTensor& t : inputs) shapes.push_back(t.shape);
    auto symbols = solve_symbols(graph, shapes, [&](size_t i) { return inputs[i].get(0).i; });
    if (!symbols.ok()) return wrong("symbols: " + symbols.status().message());
    std::vector<Strided> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.emplace_back(inputs[i].dtype, inputs[i].shape,
                      steps_of(*graph.dims, graph.inputs[i].strides, inputs[i].shape, *symbols));
      in.back().write(inputs[i]);
      in.back().read(&inputs[i]);
    }
    auto want = wanted(graph, inputs);
    if (!want.ok()) return wrong("evaluator: " + want.status().message());
    std::vector<Tensor> params, in_tensors, out_tensors;
    for (size_t i = 0; i < in.size(); ++i) {
      in_tensors.push_back(in[i].tensor());
      const bool freeze = i < frozen.size() && frozen[i];
      options.freeze = options.freeze || freeze;
      params.push_back(in_tensors.back());
      if (!freeze) params.back().data = nullptr;
    }
    auto made = Program::make(graph, options, params);
    if (!made.ok()) {
      if (made.status().code() != Code::unsupported) return wrong("make: " + made.status().message());
      result.kind = CheckResult::unsupported;
      result.message = made.status().message();
      return result;
    }
    program = *made;
    for (int round = 0; round < 2; ++round) {
      out.clear();
      out_tensors.clear();
      for (size_t o = 0; o < want->size(); ++o) {
        const HostTensor& e = (*want)[o].expected;
        out.emplace_back(e.dtype, e.shape,
                         steps_of(*graph.dims, graph.outputs[o].strides, e.shape, *symbols));
      }
      for (Strided& s : out) out_tensors.push_back(s.tensor());
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): in_tensors point into `in`
      const auto before = in;
      Status status = program->run(in_tensors, out_tensors);
      if (!status.ok()) return wrong("run: " + status.message() + "\n" + program->explain(false));
      for (size_t i = 0; i < in.size(); ++i) {
        const bool kept =
            graph.inputs[i].donated ? in[i].same_margins(before[i]) : in[i].bytes == before[i].bytes;
        if (!kept) return wrong("input " + std::to_string(i) + " was written\n" + program->explain(false));
        in[i].bytes = before[i].bytes;
      }
      for (size_t o = 0; o < out.size(); ++o) {
        HostTensor got((*want)[o].expected.dtype, (*want)[o].expected.shape);
        const std::string where =
            "output " + std::to_string(o) + " " + graph.value_name(graph.outputs[o].value) + ": ";
        if (!out[o].read(&got))
          return wrong(where + "bytes beside the elements were written\n" + program->explain(false));
        for (int64_t i = 0; i < got.count(); ++i) {
          bool nothing = false;
          const std::string message = compare((*want)[o], got, i, &nothing);
          if (!message.empty()) return wrong(where + message + "\n" + program->explain(false));
          ++result.elements;
          result.says_nothing += nothing;
        }
      }
    }
    // An output in the memory of an input must get the same bytes as in its own buffer, or the run is refused and leaves the memory
    // untouched.
    for (size_t o = 0; o < out.size(); ++o)
      for (size_t i = 0; i < in.size(); ++i) {
        if (params[i].data || in[i].dtype != out[o].dtype || in[i].shape != out[o].shape ||
            in[i].strides != out[o].strides || inputs[i].count() == 0)
          continue;
        const std::vector<Strided> all_before = in;
        const std::vector<std::byte>& before = all_before[i].bytes;
        std::vector<Strided> others = out;
        for (size_t k = 0; k < others.size(); ++k)
          out_tensors[k] = k == o ? in_tensors[i] : others[k].tensor();
        const Status status = program->run(in_tensors, out_tensors);
        const std::string where = "output " + std::to_string(o) + " in input " + std::to_string(i) + ": ";
        if (!status.ok() && (status.code() != Code::invalid || in[i].bytes != before))
          return wrong(where + "run: " + status.message());
        if (status.ok() && in[i].bytes != out[o].bytes)
          return wrong(where + "other bytes\n" + program->explain(false));
        for (size_t k = 0; status.ok() && k < others.size(); ++k)
          if (k != o && others[k].bytes != out[k].bytes)
            return wrong(where + "changes output " + std::to_string(k) + "\n" + program->explain(false));
        result.in_place += status.ok();
        for (size_t k = 0; k < in.size(); ++k) in[k].bytes = all_before[k].bytes;
      }
    result.workspace = program->stats().workspace_bytes;
    result.uses_donated = program->explain(false).find("in donated inputs") != std::string::npos;
  } catch (const std::exception& error) {
    return wrong(std::string("exception: ") + error.what() + (program ? "\n" + program->explain(false) : ""));
  }
  return result;
}

}  // namespace tenon
