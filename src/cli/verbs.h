// The verbs of the command line. main.cc reads the arguments with CLI11 and calls one of them. Each returns
// the exit status: 0 done; 1 failed, stderr says why; 2 wrong arguments, if main.cc cannot detect the mistake
// itself. Tested by tests/cli_test.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/ops/eval/host_tensor.h"

namespace tenon::cli {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2;

struct OptArgs {
  std::string file;  // "-": stdin
  std::vector<std::string> passes;
  std::vector<std::string> without;        // passes to leave out of optimize and fuse
  std::vector<std::string> kernel_passes;  // if any, the file is a kernel
  std::vector<std::string> inputs;         // of a symbol: name=1,3,224,224 or name=file.npy
  std::string params;                      // of a symbol: its .params file
};
int opt(const OptArgs& args);

struct RunArgs {
  std::string file;
  std::vector<std::string> inputs;    // name=file.npy; of a symbol also name=1,3,224,224
  std::string params;                 // of a symbol: its .params file; empty: random parameters
  std::vector<std::string> dims;      // N=4
  std::vector<std::string> backends;  // empty: all
  std::vector<std::string> without;   // passes to leave out
  uint64_t seed = 0;
  int repeat = 1;
  std::string output_dir;  // empty: nothing is written
  bool explain = false;
};
int run(const RunArgs& args);
// Runs the same inputs through the program and the evaluator. If they differ, prints the smallest graph that
// shows the difference and returns kFailed.
int verify(const RunArgs& args);

// Exactly one verb at a time.
struct CacheArgs {
  std::string verb;  // ls, stat, prune, verify, export, import
  std::string file;
  int64_t bytes = -1;   // prune: the size to keep; -1: the limit
  bool remove = false;  // verify: remove damaged entries
};
int cache(const CacheArgs& args);

int doctor();
int env();
int ops(const std::string& name);  // "": all of them

// Helpers of several verbs.
Result<std::string> read_file(const std::string& path);  // "-": stdin
// A graph and the tensors that come with it, by the names of inputs.
struct Model {
  Graph graph;
  std::map<std::string, HostTensor> tensors;
};
// The text of a graph, or MXNet's symbol JSON (a path that ends with .json). Messages are "path:line:column: ..." or
// "path: byte ...". inputs and params as in RunArgs; only symbols have params. Takes the entries that state sizes out of
// `inputs`.
Result<Model> read_model(const std::string& path, std::vector<std::string>& inputs,
                         const std::string& params);
Result<Model> read_symbol(const std::string& path, std::vector<std::string>& inputs,
                          const std::string& params);
int fail(const Status& status);           // prints the message; returns kFailed
int misuse(const std::string& sentence);  // prints the sentence; returns kUsage
void print_line(std::string_view text);   // to stdout

}  // namespace tenon::cli
