// Runs a dozen kernels and a small call so that callgrind counts the instructions of each: one dump per case, of kCalls calls after a warm one.
// Run by tests/instructions.py.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace {

constexpr int kCalls = 20;

struct Case {
  const char* name;
  const char* inputs;                        // "%x: f32[32,250], ..."
  const char* body;                          // "%y = ...", separated by ;
  std::vector<std::vector<int64_t>> shapes;  // of the inputs, then of the output %y
};

const std::vector<int64_t> kRows{32, 250}, kColumn{32}, kRow{250}, kSixteen{16};

const Case kCases[] = {
    {"call", "%x: f32[16], %z: f32[16]", "%s = add(%x, %z);%y = mul(%s, %x)", {kSixteen, kSixteen, kSixteen}},
    {"add", "%x: f32[32,250], %z: f32[32,250]", "%y = add(%x, %z)", {kRows, kRows, kRows}},
    {"gelu_bias", "%x: f32[32,250], %b: f32[250]", "%s = add(%x, %b);%y = gelu(%s)", {kRows, kRow, kRows}},
    {"tanh", "%x: f32[32,250]", "%y = tanh(%x)", {kRows, kRows}},
    {"softmax", "%x: f32[32,250]", "%y = softmax(%x){axis=-1}", {kRows, kRows}},
    {"layer_norm", "%x: f32[32,250]", "%y = layer_norm(%x){axes_count=1, eps=1e-05}", {kRows, kRows}},
    {"rms_norm", "%x: f32[32,250]", "%y = rms_norm(%x){axes_count=1, eps=1e-06}", {kRows, kRows}},
    {"row_sums", "%x: f32[32,250]", "%y = sum(%x){axes=[1]}", {kRows, kColumn}},
    {"column_sums", "%x: f32[32,250]", "%y = sum(%x){axes=[0]}", {kRows, kRow}},
    {"row_max", "%x: f32[32,250]", "%y = max(%x){axes=[1]}", {kRows, kColumn}},
    {"transpose_add",
     "%x: f32[32,250], %z: f32[250,32]",
     "%t = transpose(%z){perm=[1,0]};%y = add(%x, %t)",
     {kRows, {250, 32}, kRows}},
    {"cumsum", "%x: f32[32,250]", "%y = cumsum(%x){axis=1}", {kRows, kRows}},
    {"log_softmax", "%x: f32[32,250]", "%y = log_softmax(%x){axis=-1}", {kRows, kRows}},
};

bool run(const Case& c) {
  std::string text = "graph @f(" + std::string(c.inputs) + ") {\n";
  for (const char* at = c.body; *at; ++at) text += *at == ';' ? '\n' : *at;
  text += "\nreturn %y\n}\n";
  std::vector<std::vector<float>> data;
  std::vector<tenon_tensor> tensors;
  for (const auto& shape : c.shapes) {
    size_t count = 1;
    for (const int64_t n : shape) count *= static_cast<size_t>(n);
    data.emplace_back(count);
    for (size_t i = 0; i < count; ++i) data.back()[i] = static_cast<float>(i % 17) / 8 - 1;
  }
  for (size_t i = 0; i < data.size(); ++i)
    tensors.push_back({data[i].data(),
                       {1, 0},
                       static_cast<int32_t>(c.shapes[i].size()),
                       {2, 32, 1},
                       const_cast<int64_t*>(c.shapes[i].data()),
                       nullptr,
                       0});
  std::vector<const tenon_tensor*> in, out{&tensors.back()};
  for (size_t i = 0; i + 1 < tensors.size(); ++i) in.push_back(&tensors[i]);
  tenon_graph* graph = nullptr;
  tenon_program* program = nullptr;
  tenon_program_options options = {};
  options.struct_size = sizeof options;
  options.num_threads = 1;
  bool ok = !tenon_graph_parse(text.c_str(), TENON_NTS, &graph) &&
            !tenon_program_create(graph, &options, nullptr, 0, &program) &&
            !tenon_program_run(program, in.data(), in.size(), out.data(), 1);
  CALLGRIND_ZERO_STATS;
  for (int i = 0; ok && i < kCalls; ++i)
    ok = !tenon_program_run(program, in.data(), in.size(), out.data(), 1);
  CALLGRIND_DUMP_STATS_AT(c.name);
  if (!ok) std::fprintf(stderr, "%s: %s\n", c.name, tenon_last_error());
  tenon_program_release(program);
  tenon_graph_release(graph);
  return ok;
}

}  // namespace

int main() {
  bool ok = true;
  for (const Case& c : kCases) ok = run(c) && ok;
  std::printf("%d\n", kCalls);
  return ok ? 0 : 1;
}
