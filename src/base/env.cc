// See env.h. Tested by tests/unit/base/base_test.cc.
#include "src/base/env.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "src/base/log.h"
#include "src/base/text.h"

namespace tenon {
namespace {

constexpr EnvVar kVars[] = {
#define X(accessor, name, fallback, accepted, sentence) {name, fallback, accepted, sentence},
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
#define X(accessor, name, fallback, ...) \
  std::string accessor() { return read(name, fallback); }
TENON_ENV(X)
#undef X
}  // namespace env

namespace {

std::optional<int> read_count(std::string_view text) {
  const auto n = read_int(text);
  return n && *n >= 0 && *n <= 4096 ? std::optional(static_cast<int>(*n)) : std::nullopt;
}

}  // namespace

int env_threads() {
  static const int threads = read_count(env::num_threads()).value_or(0);
  return threads;
}

std::optional<int64_t> read_bytes(std::string_view text) {
  int shift = 0;
  for (auto [letter, bits] : {std::pair('K', 10), std::pair('M', 20), std::pair('G', 30), std::pair('T', 40)})
    if (!text.empty() && text.back() == letter) {
      text.remove_suffix(1);
      shift = bits;
      break;
    }
  const auto n = read_int(text);
  if (!n || *n < 0 || *n > (INT64_MAX >> shift)) return std::nullopt;
  return *n << shift;
}

std::string env_wrong(const EnvVar& var, std::string_view value) {
  if (value == var.fallback || var.accepted == kAnyText) return "";
  std::string wanted;
  if (var.accepted == kCount) {
    if (read_count(value)) return "";
    wanted = "no number from 0 to 4096";
  } else if (var.accepted == kBytes) {
    if (read_bytes(value)) return "";
    wanted = "no number of bytes such as 500M";
  } else {
    for (std::string_view rest = var.accepted; !rest.empty();) {
      const size_t bar = std::min(rest.find('|'), rest.size());
      if (rest.substr(0, bar) == value) return "";
      ((wanted += wanted.empty() ? "none of " : ", ")) += rest.substr(0, bar);
      rest.remove_prefix(std::min(bar + 1, rest.size()));
    }
  }
  return "is '" + printable(value.substr(0, 80)) + "', " + wanted + ": it counts as " +
         (var.fallback.empty() ? "unset" : std::string(var.fallback));
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
      nearest.offer(var.name);
      if (var.name != name) continue;
      known = true;
      const std::string value(text.substr(std::min(name.size() + 1, text.size())));
      if (const std::string wrong = env_wrong(var, value); !wrong.empty())
        out.push_back(std::string(name) + " " + wrong);
    }
    if (!known) out.push_back(printable(name.substr(0, 80)) + " is not a variable of Tenon" + nearest.hint());
  }
  return out;
}

void warn_of_env() {
  static std::atomic<bool> warned{false};
  if (warned.load(std::memory_order_relaxed) || !log_wanted("warning") || warned.exchange(true)) return;
  for (const std::string& warning : env_warnings()) log("warning", warning);
}

}  // namespace tenon
