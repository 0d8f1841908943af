// Status: the result of everything that can fail. There are four kinds of failure:
//   invalid      the caller's graph, tensor or option is wrong; the message names the node and both shapes or dtypes
//   unsupported  an answer, not a failure: the framework keeps the op
//   environment  a missing library, a driver's error code, a compiler's log
//   internal     a bug of Tenon, raised by TENON_CHECK and turned into a status by the C interface (src/api)
// Result<T> is a value or such a Status. Tested by tests/unit/base/base_test.cc.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace tenon {

enum class Code { ok = 0, invalid, unsupported, environment, internal };

const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // The same failure with "where: " in front of the message.
  Status at(const std::string& where) const { return ok() ? *this : Status(code_, where + ": " + message_); }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

inline Status invalid(std::string message) { return {Code::invalid, std::move(message)}; }
inline Status unsupported(std::string message) { return {Code::unsupported, std::move(message)}; }
inline Status environment(std::string message) { return {Code::environment, std::move(message)}; }
// An `environment` failure: `what`, then the system's message for errno.
Status system_error(const std::string& what);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

// Thrown by TENON_CHECK only; caught by src/api (and by tests).
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};
// Thrown where no status can be returned and the failure is no bug of Tenon: a value of a body is too large,
// or a size has no value. Programs (src/runtime) and src/api turn it into a Status.
struct StatusError : std::runtime_error {
  explicit StatusError(Status s) : std::runtime_error(s.message()), status(std::move(s)) {}
  Status status;
};
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace tenon

#define TENON_CHECK(condition, message)                                                 \
  do {                                                                                  \
    if (!(condition)) ::tenon::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (0)

#define TENON_TRY(expression)                   \
  do {                                          \
    ::tenon::Status try_status_ = (expression); \
    if (!try_status_.ok()) return try_status_;  \
  } while (0)

#define TENON_CONCAT_(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_(a, b)
// TENON_ASSIGN(auto x, f()): sets x to the value of the Result f(), or returns the Status of f().
#define TENON_ASSIGN(target, expression) TENON_ASSIGN_(TENON_CONCAT(result_, __LINE__), target, expression)
#define TENON_ASSIGN_(name, target, expression) \
  auto name = (expression);                     \
  if (!name.ok()) return name.status();         \
  target = std::move(*name)
