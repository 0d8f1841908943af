// See subjects.h. Tested by tests/bench_test.py.
#include "src/cli/bench/subjects.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "src/base/text.h"
#include "src/cli/bench/expression.h"

namespace tenon::cli {
namespace {

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// Shortens the names of these subjects from paths to stems. Subjects whose stems are equal keep their paths.
void shorten_names(std::vector<Subject>& subjects, const std::vector<size_t>& files) {
  std::map<std::string, int> count;
  for (const size_t i : files) ++count[stem(subjects[i].name)];
  for (const size_t i : files)
    if (count[stem(subjects[i].name)] == 1) subjects[i].name = stem(subjects[i].name);
}

std::string shortened(const std::string& expression) {
  constexpr size_t kMost = 80;
  return expression.size() <= kMost ? expression : expression.substr(0, kMost) + "...";
}

// Whether the word is an entry of --shapes, such as y:4x4.
bool is_shape(const std::string& word) {
  const size_t colon = word.find(':');
  return colon != word.npos && colon > 0 && colon + 1 < word.size() && is_name(word.substr(0, colon)) &&
         (std::isalnum(static_cast<unsigned char>(word[colon + 1])) != 0);
}

// Fails if no input of the expression `source` has a shape.
Status has_shapes(const Graph& graph, const std::string& source, const std::vector<std::string>& shapes) {
  if (graph.inputs.empty()) return {};
  for (const InputBinding& in : graph.inputs)
    for (const std::string& entry : shapes)
      if (entry.starts_with(graph.node(in.value).name + ":")) return {};
  const std::string& name = graph.node(graph.inputs[0].value).name;
  return invalid("no input has a shape: give --shapes " + name + ":4096x1024" +
                 (source == name ? " (there is no file or directory " + name + ")" : ""));
}

// Fails for a name in `shapes` that is an input of none of the expressions.
Status all_used(const std::vector<std::string>& shapes, const std::vector<const Graph*>& expressions) {
  for (const std::string& entry : shapes) {
    const std::string name = entry.substr(0, entry.find(':'));
    const bool used = std::ranges::any_of(expressions, [&](const Graph* g) {
      return std::ranges::any_of(g->inputs,
                                 [&](const InputBinding& in) { return g->node(in.value).name == name; });
    });
    if (!used) return invalid("--shapes names " + name + ", which no expression reads");
  }
  return {};
}

}  // namespace

Result<std::vector<Subject>> read_subjects(const std::vector<std::string>& sources,
                                           const std::vector<std::string>& shapes,
                                           const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  std::vector<Subject> subjects;
  std::vector<size_t> expressions, files;  // positions of subjects
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
      std::vector<std::string> given = inputs;
      TENON_ASSIGN(Model model, read_model(path, given, ""));
      files.push_back(subjects.size());
      subjects.push_back({path, std::move(model)});
    }
    if (!paths.empty()) continue;
    if (fs::exists(source, none))
      return invalid(source + " is a file, but its name ends with neither .tn nor .json");
    auto graph = parse_expression(source, shapes);
    if (!graph.ok() && is_shape(source))
      return invalid(source + " is a shape: write all shapes as one word, --shapes x:4096x1024," + source);
    if (!graph.ok()) return graph.status().at(shortened(source));
    TENON_TRY(has_shapes(*graph, source, shapes));
    expressions.push_back(subjects.size());
    subjects.push_back({source, Model{std::move(*graph), {}}});
  }
  shorten_names(subjects, files);
  std::vector<const Graph*> readers;
  for (const size_t i : expressions) readers.push_back(&subjects[i].model.graph);
  TENON_TRY(all_used(shapes, readers));
  for (Subject& s : subjects) s.model.graph = without_updates(std::move(s.model.graph));
  return subjects;
}

}  // namespace tenon::cli
