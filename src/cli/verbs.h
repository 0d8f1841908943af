// Verbs of the command line: main.cc reads the arguments with CLI11 and calls one of these. Each returns the exit status:
// 0 done, 1 it failed and stderr says why; 2, a mistake in the arguments, is main's (and a verb's where only it can see).
// Tested by tests/cli_test.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"

namespace tenon::cli {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2;

struct OptArgs {
  std::string file;  // "-": stdin
  std::vector<std::string> passes;
  std::vector<std::string> without;        // of the passes optimize and fuse
  std::vector<std::string> kernel_passes;  // the file is a kernel
};
int opt(const OptArgs& args);

struct RunArgs {
  std::string file;
  std::vector<std::string> inputs;    // name=file.npy
  std::vector<std::string> dims;      // N=4
  std::vector<std::string> backends;  // empty: all
  std::vector<std::string> without;   // passes that are left out
  uint64_t seed = 0;
  int repeat = 1;
  std::string output_dir;  // empty: nothing is written
  bool explain = false;
};
int run(const RunArgs& args);
// The same inputs through the program and through the evaluator: kFailed if they differ, and the smallest graph that shows it.
int verify(const RunArgs& args);

// One of these at a time.
struct CacheArgs {
  std::string verb;  // ls, stat, prune, verify, export, import
  std::string file;
  int64_t bytes = -1;   // prune: to this size; -1: to the limit
  bool remove = false;  // verify: what is damaged
};
int cache(const CacheArgs& args);

int doctor();
int env();
int ops(const std::string& name);  // "": all of them

// Helpers of several verbs.
Result<std::string> read_file(const std::string& path);  // "-": stdin
Result<Graph> read_graph(const std::string& path);       // messages are "path:line:column: ..."
int fail(const Status& status);                          // prints it; kFailed
int misuse(const std::string& sentence);                 // prints it; kUsage
void print_line(std::string_view text);                  // to stdout

}  // namespace tenon::cli
