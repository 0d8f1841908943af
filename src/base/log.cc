// See log.h. Tested by tests/unit/base/base_test.cc.
#include "src/base/log.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "src/base/env.h"
#include "src/base/no_fork.h"

namespace tenon {
namespace {

std::mutex mutex;
Logger logger = nullptr;
void* logger_user = nullptr;
std::set<std::string>& headed() {  // topics whose header has been logged
  static std::set<std::string>& kept = *new std::set<std::string>;
  return kept;
}

std::pair<Logger, void*> current() {
  const NoFork no_fork;
  std::lock_guard lock(mutex);
  return {logger, logger_user};
}

void print(const std::string& topic, const std::string& message) {
  std::string line = "tenon " + topic + ": " + message + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void set_logger(Logger to, void* user) {
  const NoFork no_fork;
  std::lock_guard lock(mutex);
  logger = to;
  logger_user = user;
  headed().clear();
}

bool log_wanted(std::string_view topic) { return current().first || in_list(env::log(), topic); }

void log(std::string_view topic, const std::string& message) {
  std::string name(topic);
  if (auto [to, user] = current(); to)
    to(user, name.c_str(), message.c_str());
  else if (in_list(env::log(), topic))
    print(name, message);
}

void log_row(std::string_view topic, const std::string& header, std::initializer_list<std::string> values) {
  if (!log_wanted(topic)) return;
  bool first;
  {
    const NoFork no_fork;
    std::lock_guard lock(mutex);
    first = headed().emplace(topic).second;
  }
  if (first) log(topic, header);
  std::string row;
  for (const std::string& v : values) {
    if (&v != values.begin()) row += ',';
    if (v.find_first_of(",\"\n") == std::string::npos) {
      row += v;
      continue;
    }
    row += '"';
    for (char c : v) (row += c) += c == '"' ? "\"" : "";
    row += '"';
  }
  log(topic, row);
}

bool dump_wanted(std::string_view stage) { return in_list(env::dump(), stage); }

void dump(std::string_view stage, const std::string& text) {
  std::string topic = "dump." + std::string(stage);
  if (auto [to, user] = current(); to)
    to(user, topic.c_str(), text.c_str());
  else
    print(topic, "\n" + text);
}

}  // namespace tenon
