// Log: the only way to report anything besides a Status. A message has a topic, which is one word ("fuse",
// "cache", "warning", ...). It goes to the logger that the host set through the C ABI; without a logger it
// goes to stderr if TENON_LOG names the topic, else nowhere. dump() logs the text of a stage that TENON_DUMP
// names. Any thread may call any function. Tested by tests/unit/base/base_test.cc.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace tenon {

// topic and message end with a zero byte and are valid during the call. Calls come from any thread, also
// several at once.
using Logger = void (*)(void* user, const char* topic, const char* message);

// nullptr removes the logger. A message under way in another thread may still reach the former logger.
void set_logger(Logger logger, void* user);
// Whether log() would reach a reader. Ask before building a costly message.
bool log_wanted(std::string_view topic);
void log(std::string_view topic, const std::string& message);
// Logs one row of comma-separated values, quoted where necessary. Logs the header first, once per topic and
// logger.
void log_row(std::string_view topic, const std::string& header, std::initializer_list<std::string> values);

// Whether TENON_DUMP names the stage.
bool dump_wanted(std::string_view stage);
// Sends the text to the logger under the topic "dump.STAGE"; without a logger, to stderr.
void dump(std::string_view stage, const std::string& text);

}  // namespace tenon
