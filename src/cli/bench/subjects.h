// Subjects: the graphs that `tenon bench` and `tenon profile` run. Tested by tests/bench_test.py.
#pragma once

#include <string>
#include <vector>

#include "src/cli/verbs.h"

namespace tenon::cli {

struct Subject {
  std::string name;  // the expression, or the file's name without folder and suffix
  Model model;       // outputs update no inputs, so that every run is the same
};

// sources: expressions, files NAME.tn or NAME.json, "-", or directories, which stand for their files *.tn. shapes: of the expressions'
// inputs; each name is an input of some expression. inputs: as in RunArgs.
Result<std::vector<Subject>> read_subjects(const std::vector<std::string>& sources,
                                           const std::vector<std::string>& shapes,
                                           const std::vector<std::string>& inputs);

}  // namespace tenon::cli
