// See env.h. Tested by tests/base_test.cc.
#include "src/base/env.h"

#include <unistd.h>

#include <cstdlib>

#include "src/base/text.h"

namespace tenon {
namespace {

constexpr EnvVar kVars[] = {
#define X(accessor, name, fallback, sentence) {name, fallback, sentence},
    TENON_ENV(X)
#undef X
};

std::string read(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value ? value : fallback;
}

}  // namespace

std::span<const EnvVar> env_vars() { return kVars; }

namespace env {
#define X(accessor, name, fallback, sentence) \
  std::string accessor() { return read(name, fallback); }
TENON_ENV(X)
#undef X
}  // namespace env

int env_threads() {
  static const int threads = [] {
    auto n = read_int(env::num_threads());
    return n && *n > 0 && *n <= 4096 ? static_cast<int>(*n) : 0;
  }();
  return threads;
}

bool env_verify() {
  static const bool verify = env::verify() == "1";
  return verify;
}

std::string env_cache_home() {
  if (std::string xdg = read("XDG_CACHE_HOME", ""); xdg.starts_with('/')) return xdg;
  if (std::string home = read("HOME", ""); home.starts_with('/')) return home + "/.cache";
  return "";
}

bool in_list(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    if (entry == item || entry == "all") return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::vector<std::string> env_warnings() {
  std::vector<std::string> out;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view text = *entry;
    std::string_view name = text.substr(0, text.find('='));
    if (name.substr(0, 6) != "TENON_") continue;
    Nearest nearest(name);
    bool known = false;
    for (const EnvVar& var : kVars) {
      known |= var.name == name;
      nearest.offer(var.name);
    }
    if (!known) out.push_back(std::string(name) + " is not a variable of Tenon" + nearest.hint());
  }
  return out;
}

}  // namespace tenon
