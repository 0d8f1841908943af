#include "bindings/mxnet/options.h"

#include <charconv>
#include <string_view>

#include "bindings/mxnet/messages.h"

namespace tenon::plugin {
namespace {

constexpr std::string_view kMode = "tenon_mode", kFreeze = "tenon_freeze", kGuarded = "tenon_guarded";

constexpr const char* kNoFreeze = "freeze is for inference: training changes the parameters";

bool is_training(std::string_view mode) {
  if (mode != "inference" && mode != "training")
    throw Failure("mode is \"inference\" or \"training\", not \"" + std::string(mode) + "\"");
  return mode == "training";
}

bool is_true(std::string_view key, std::string_view text) {
  if (text != "True" && text != "False" && text != "1" && text != "0")
    throw Failure(std::string(key) + " is True or False, not \"" + std::string(text) + "\"");
  return text == "True" || text == "1";
}

Freeze freeze_of(std::string_view text) {
  if (text == "auto") return Freeze::settled;
  return is_true("freeze", text) ? Freeze::always : Freeze::never;
}

const char* text_of(Freeze freeze) {
  return freeze == Freeze::settled ? "auto" : freeze == Freeze::always ? "True" : "False";
}

int count_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    throw Failure("min_nodes is a number of at least 1, not \"" + std::string(text) + "\"");
  return number;
}

// "exp,sin" of "exp, sin", or of the list "['exp', 'sin']" as Python prints it.
std::string names_of(std::string_view text) {
  std::string names;
  for (const char c : text)
    if (std::string_view("[]()'\" ").find(c) == std::string_view::npos) names += c;
  return names;
}

}  // namespace

Options user_options(const char* const* keys, const char* const* values, int count) {
  Options options;
  for (int i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    if (key == "mode") options.training = is_training(values[i]);
    if (key == "min_nodes") options.min_nodes = count_of(values[i]);
    if (key == "dedup_subgraph") options.dedup = is_true(key, values[i]);
    if (key == "freeze") options.freeze = freeze_of(values[i]);
    if (key == "op_names") options.op_names = names_of(values[i]);
  }
  if (options.training && options.freeze == Freeze::always) throw Failure(kNoFreeze);
  return options;
}

Strings node_attributes(const Options& options) {
  return {{std::string(kMode), std::string(kFreeze)},
          {options.training ? "training" : "inference", text_of(options.freeze)}};
}

Options node_options(const char* const* keys, const char* const* values, int count) {
  Options options;
  for (int i = 0; i < count; ++i) {
    if (keys[i] == kMode) options.training = is_training(values[i]);
    if (keys[i] == kFreeze) options.freeze = freeze_of(values[i]);
    if (keys[i] == kGuarded) options.guarded = is_true(kGuarded, values[i]);
  }
  if (options.training && options.freeze == Freeze::always) throw Failure(kNoFreeze);
  return options;
}

}  // namespace tenon::plugin
