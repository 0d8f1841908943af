// Log: the one way anything is said beside statuses. A message has a topic (a word: "fuse", "cache", "warning", ...) and
// goes to the logger the host set through the C ABI; without one to stderr if TENON_LOG names the topic, else nowhere.
// dump() is for the text of a stage that TENON_DUMP names. Any thread may call anything. Tested by tests/unit/base/base_test.cc.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace tenon {

// topic and message end in a zero byte and live as long as the call, which may come from any thread, also at once.
using Logger = void (*)(void* user, const char* topic, const char* message);

// nullptr: no logger. A message already under way in another thread may still reach the former one.
void set_logger(Logger logger, void* user);
// Whether log() would reach anyone: ask before building a costly message.
bool log_wanted(std::string_view topic);
void log(std::string_view topic, const std::string& message);
// One row of comma-separated values, quoted where they need it. The header goes out first, once per topic and logger.
void log_row(std::string_view topic, const std::string& header, std::initializer_list<std::string> values);

// Whether TENON_DUMP names the stage.
bool dump_wanted(std::string_view stage);
// The text under the topic "dump.STAGE" to the logger, without one to stderr.
void dump(std::string_view stage, const std::string& text);

}  // namespace tenon
