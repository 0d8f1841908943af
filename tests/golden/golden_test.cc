// Golden texts: the first line of every tests/golden/**/*.tn states what runs, "; test VERB args". The whole file up to a line
// "; ---" is the input, so that line numbers are those of the file. The text behind that line is the expected output.
// TENON_BLESS=1 rewrites the expected output: read the diff.
//
// A file with expected errors has no "; ---". Each line that causes an error has "; error: SUBSTRING", on the line itself or alone
// on the line below. Every reported error must be expected, and every expected one reported. An error "LINE:COLUMN: ..." belongs
// to its line, "%x: ..." to the line that defines %x, any other to the first line of the graph.
//
// A verb is one line in kVerbs, a function from the input to text. For example, `pass NAME...` runs passes of
// src/passes/pipeline.h one after another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "jit/cuda/cuda_code.h"
#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "jit/lower/lower.h"
#include "jit/transform/gpu/join_online_reductions.h"
#include "src/base/text.h"
#include "src/ir/group.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/passes/pipeline.h"
#include "src/runtime/compile/placement.h"
#include "src/runtime/program.h"
#include "tests/support/nvidia/cuda_devices.h"
#include "tests/support/nvidia/cuda_launches.h"
#include "tests/support/nvidia/cuda_variant.h"
#include "tests/support/paths.h"

namespace tenon {
namespace {

struct Verb {
  std::string_view name;
  Result<std::string> (*run)(std::string_view args, std::string_view input);
};

Result<std::string> cat(std::string_view, std::string_view input) {
  TENON_ASSIGN(Graph graph, parse_graph(input));
  return print(graph);
}

Result<std::string> verify_graph(std::string_view, std::string_view input) {
  TENON_ASSIGN(Graph graph, parse_graph(input));
  TENON_TRY(verify(graph));
  return std::string("valid\n");
}

Result<std::string> kernel(std::string_view, std::string_view input) {
  TENON_ASSIGN(jit::Kernel kernel, jit::parse_kernel(input));
  return jit::print(kernel);
}

// Errors of verify() name their statement; this puts its line in front.
Result<std::string> verify_kernel(std::string_view, std::string_view input) {
  TENON_ASSIGN(jit::Kernel kernel, jit::parse_kernel(input));
  Status status = jit::verify(kernel);
  if (status.ok()) return std::string("valid\n");
  std::istringstream errors(status.message());
  std::string located;
  for (std::string error; std::getline(errors, error);) {
    std::string statement = "kernel @";
    if (size_t open = error.find('`'); open != error.npos)
      statement = error.substr(open + 1, error.find('`', open + 1) - open - 1);
    std::istringstream lines{std::string(input)};
    int number = 1;
    for (std::string line; std::getline(lines, line) && line.find(statement) == line.npos;) ++number;
    located += (located.empty() ? "" : "\n") + std::to_string(number) + ":1: " + error;
  }
  return invalid(located);
}

Result<std::string> llvm(std::string_view args, std::string_view input) {
  TENON_ASSIGN(jit::Kernel kernel, jit::parse_kernel(input));
  TENON_TRY(jit::verify(kernel));
  for (jit::Isa isa : {jit::Isa::sse2, jit::Isa::avx2, jit::Isa::avx512})
    if (args == "isa=" + std::string(jit::isa_name(isa))) return jit::llvm_text(kernel, isa);
  return invalid("llvm takes isa=sse2, isa=avx2 or isa=avx512");
}

// The variant of a kernel for a GPU and sizes: "device=H100 sizes=1024,512". Names of devices have no spaces: "RTX_4090".
Result<std::string> cuda(std::string_view args, std::string_view input) {
  TENON_ASSIGN(jit::Kernel kernel, jit::parse_kernel(input));
  TENON_TRY(jit::verify(kernel));
  std::istringstream words{std::string(args)};
  std::string device;
  std::vector<int64_t> sizes;
  for (std::string word; words >> word;) {
    std::istringstream values(word.substr(word.find('=') + 1));
    if (word.starts_with("device="))
      std::getline(values, device);
    else
      for (std::string size; std::getline(values, size, ',');) sizes.push_back(std::stoll(size));
  }
  if (device.empty() || sizes.size() != kernel.sizes.size())
    return invalid("cuda takes device=NAME and sizes=LIST, as many as the kernel has");
  std::replace(device.begin(), device.end(), '_', ' ');
  const jit::CudaDevice d = jit::cuda_device(device);
  const jit::KernelVariant v = jit::variant_of(kernel, sizes, d);
  const jit::CudaLaunch& l = v.launch;
  return "// " + jit::describe(v) + ": " + std::to_string(l.blocks) + " blocks of " +
         std::to_string(l.threads) + " threads, " + std::to_string(l.shared_bytes) + " shared bytes\n" +
         jit::cuda_text(*v.kernel, v.schedule);
}

// The online reductions of a kernel whose rows are too long to keep.
Result<std::string> online(std::string_view, std::string_view input) {
  TENON_ASSIGN(jit::Kernel kernel, jit::parse_kernel(input));
  TENON_TRY(jit::verify(kernel));
  const auto once = jit::join_online_reductions(kernel);
  if (!once) return std::string("nothing to change\n");
  TENON_TRY(jit::verify(*once));
  if (jit::join_online_reductions(*once)) return invalid("a second run changes the kernel again");
  return print(*once);
}

// Lowers a graph as one group for a GPU.
Result<std::string> lower_gpu(std::string_view, std::string_view input) {
  TENON_ASSIGN(Graph graph, parse_graph(input));
  std::vector<ValueId> members;
  for (ValueId v = 0; v < graph.nodes.size(); ++v)
    if (op(graph.node(v).op).kind != Kind::input && !op(graph.node(v).op).view) members.push_back(v);
  const std::vector<ValueId> outputs = outputs_of(graph, Uses(graph), members);
  auto strides = [&](ValueId v) -> std::optional<Dims> {
    if (op(graph.node(v).op).view) return std::nullopt;
    return dense_strides(*graph.dims, graph.type(v).shape);
  };
  TENON_ASSIGN(auto kernels, jit::make_kernels({graph, members, outputs, strides, jit::Target::gpu}));
  std::string text;
  for (const jit::LoweredKernel& k : kernels) text += print(k.kernel);
  return text;
}

// Compiles a graph to kernels, only with loops and the evaluator; other tests cover the libraries.
Result<std::string> explained(std::string_view input) {
  TENON_ASSIGN(Graph graph, parse_graph(input));
  ProgramOptions options;
  options.backends = {"cpu", "reference"};
  TENON_ASSIGN(std::shared_ptr<Program> program, Program::make(graph, options, {}));
  return program->explain(false);
}
Result<std::string> fuse_graph(std::string_view, std::string_view input) {
  TENON_ASSIGN(std::string text, explained(input));
  return text.substr(0, text.find("\nstep "));
}
Result<std::string> lower_graph(std::string_view, std::string_view input) {
  TENON_ASSIGN(std::string text, explained(input));
  return text.substr(text.find("step "));
}

// Does not verify after split_main, since the data of constants that are folded later is still missing.
Result<std::string> pass(std::string_view names, std::string_view input) {
  TENON_ASSIGN(Graph graph, parse_graph(input));
  const BackendPlacement placement(backends_of(DeviceId::kCpu), DeviceId::kCpu);
  std::istringstream words{std::string(names)};
  for (std::string name; words >> name;) {
    auto found = std::find_if(named_passes().begin(), named_passes().end(),
                              [&](const NamedPass& p) { return p.name == name; });
    if (found == named_passes().end()) return invalid("no pass is called " + name);
    graph = found->run(graph, placement, {});
    if (name != "split_main") TENON_TRY(verify(graph));
  }
  return print(graph, {.data_limit = 16});
}

// The driver calls of a program in one run: "N=3,M=64", with "as=one" for the run that makes a CUDA graph. Inputs, outputs and the
// workspace are named M1, M2, ... in this order, without those that no kernel gets.
Result<std::string> launches(std::string_view args, std::string_view input) {
  TENON_ASSIGN(Graph graph, parse_graph(input));
  std::vector<int64_t> symbols(graph.dims->symbol_count());
  bool as_one = false;
  std::istringstream words{std::string(args)};
  for (std::string word; std::getline(words, word, ',');) {
    const size_t equals = word.find('=');
    if (word == "as=one")
      as_one = true;
    else if (const auto symbol = graph.dims->find_symbol(word.substr(0, equals)))
      symbols[graph.dims->symbol_number(*symbol)] = std::stoll(word.substr(equals + 1));
    else
      return invalid("launches takes sizes and as=one, not " + word);
  }
  return run_on_mock(graph, symbols, as_one);
}

const Verb kVerbs[] = {
    {"pass", pass},
    {"fuse", fuse_graph},
    {"lower", lower_graph},
    {"cat", cat},
    {"verify", verify_graph},
    {"kernel", kernel},
    {"verify-kernel", verify_kernel},
    {"llvm", llvm},
    {"cuda", cuda},
    {"lower-gpu", lower_gpu},
    {"online", online},
    {"launches", launches},
};

// ---- the runner ----

struct GoldenFile {
  std::string verb, args;
  std::string input;
  bool has_output = false;
  std::string output;
  struct Expected {
    int line;
    std::string text;
  };
  std::vector<Expected> errors;
  std::vector<std::string> lines;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

GoldenFile parse_file(const std::string& text) {
  GoldenFile file;
  size_t at = 0;
  for (int number = 1; at < text.size(); ++number) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (number == 1) {
      std::istringstream words(line);
      std::string semicolon, test;
      words >> semicolon >> test >> file.verb;
      if (semicolon != ";" || test != "test") file.verb.clear();
      std::getline(words >> std::ws, file.args);
    }
    if (line == "; ---") {
      file.has_output = true;
      file.input = text.substr(0, at);
      file.output = text.substr(std::min(end + 1, text.size()));
      return file;
    }
    file.lines.push_back(line);
    constexpr std::string_view kMark = "; error: ";
    if (size_t mark = line.find(kMark); mark != line.npos) {
      int cause = number;
      auto alone = [&](int n) {
        const std::string& other = file.lines[n - 1];
        return other.find(kMark) != other.npos && other.find_first_not_of(' ') == other.find(kMark);
      };
      while (cause > 1 && alone(cause)) --cause;
      file.errors.push_back({cause, line.substr(mark + kMark.size())});
    }
    at = end + 1;
  }
  file.input = text;
  return file;
}

// The line to which an error belongs.
int line_of(const GoldenFile& file, const std::string& error) {
  if (size_t colon = error.find(':'); colon != error.npos && colon > 0)
    if (auto line = read_int(error.substr(0, colon))) return static_cast<int>(*line);
  std::string start = error.substr(0, error.find(':'));
  int graph_line = 1;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    std::string_view line = file.lines[i];
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.substr(0, 5) == "graph" && graph_line == 1) graph_line = static_cast<int>(i) + 1;
    if (start.substr(0, 1) != "%") continue;
    if (line.substr(0, start.size() + 2) == start + " =") return static_cast<int>(i) + 1;
    if (line.substr(0, 5) == "graph" && line.find(start + ":") != line.npos) return static_cast<int>(i) + 1;
  }
  return graph_line;
}

void check_errors(const GoldenFile& file, const Status& status) {
  std::vector<bool> met(file.errors.size());
  std::istringstream messages(status.message());
  for (std::string error; std::getline(messages, error);) {
    int line = line_of(file, error);
    bool expected = false;
    for (size_t i = 0; i < file.errors.size() && !expected; ++i) {
      if (met[i] || file.errors[i].line != line || error.find(file.errors[i].text) == error.npos) continue;
      met[i] = expected = true;
    }
    EXPECT_TRUE(expected) << "unexpected error at line " << line << ": " << error;
  }
  for (size_t i = 0; i < met.size(); ++i)
    EXPECT_TRUE(met[i]) << "line " << file.errors[i].line << " did not report: " << file.errors[i].text
                        << "\nreported:\n"
                        << status.message();
}

void run_golden(const std::filesystem::path& path) {
  std::string text = read_file(path);
  GoldenFile file = parse_file(text);
  const Verb* verb = nullptr;
  for (const Verb& v : kVerbs)
    if (v.name == file.verb) verb = &v;
  ASSERT_TRUE(verb) << "the first line must be '; test VERB', VERB one of this file's table; it is '"
                    << file.verb << "'";
  Result<std::string> result = verb->run(file.args, file.input);
  if (!file.errors.empty()) {
    ASSERT_FALSE(file.has_output) << "errors and an output are expected";
    ASSERT_FALSE(result.ok()) << "no error reported; output:\n" << *result;
    return check_errors(file, result.status());
  }
  ASSERT_TRUE(result.ok()) << result.status().message();
  const char* bless = std::getenv("TENON_BLESS");
  if (bless && std::string_view(bless) == "1") {
    if (file.has_output && file.output == *result) return;
    std::ofstream(path, std::ios::binary) << file.input << "; ---\n" << *result;
    return;
  }
  ASSERT_TRUE(file.has_output) << "no '; ---' line: run with TENON_BLESS=1 and read the result";
  EXPECT_EQ(file.output, *result)
      << "if the new text is right, run this test with TENON_BLESS=1 and read the diff";
}

std::vector<std::string> golden_files() {
  std::vector<std::string> out;
  std::filesystem::path root = std::filesystem::path(kSourceDirectory) / "tests/golden";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".tn")
      out.push_back(std::filesystem::relative(entry.path(), root).string());
  std::sort(out.begin(), out.end());
  return out;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, Text) { run_golden(std::filesystem::path(kSourceDirectory) / "tests/golden" / GetParam()); }

INSTANTIATE_TEST_SUITE_P(, Golden, testing::ValuesIn(golden_files()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.size() - 3);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace tenon
