// See subjects.h. Tested by tests/bench_test.py.
#include "src/cli/bench/subjects.h"

#include <algorithm>
#include <filesystem>

#include "src/cli/bench/expression.h"

namespace tenon::cli {

Result<std::vector<Subject>> read_subjects(const std::vector<std::string>& sources,
                                           const std::vector<std::string>& shapes,
                                           const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  std::vector<Subject> subjects;
  for (const std::string& source : sources) {
    std::vector<std::string> paths;
    std::error_code none;
    if (fs::is_directory(source, none)) {
      for (const auto& entry : fs::directory_iterator(source, none))
        if (entry.path().extension() == ".tn") paths.push_back(entry.path().string());
      std::ranges::sort(paths);
      if (paths.empty()) return invalid(source + " has no file *.tn");
    } else if (source == "-" || source.ends_with(".tn") || source.ends_with(".json")) {
      paths.push_back(source);
    }
    for (const std::string& path : paths) {
      std::vector<std::string> files = inputs;
      TENON_ASSIGN(Model model, read_model(path, files, ""));
      subjects.push_back({fs::path(path).stem().string(), std::move(model)});
    }
    if (!paths.empty()) continue;
    auto graph = parse_expression(source, shapes);
    if (!graph.ok()) return graph.status().at(source);
    subjects.push_back({source, Model{std::move(*graph), {}}});
  }
  for (Subject& s : subjects) s.model.graph = without_updates(std::move(s.model.graph));
  return subjects;
}

}  // namespace tenon::cli
