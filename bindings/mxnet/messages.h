// The messages of this thread's current call, for MXNet to show. Nothing is allocated, so that a message can always be stored.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace tenon::plugin {

// A refusal or a failure; what() is a sentence for the user.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The newest messages are kept, each up to a length.
void clear_messages() noexcept;
void add_message(const char* text) noexcept;
int message_count() noexcept;
// The oldest has index 0; "" if there is no such message. Valid until this thread's next call.
const char* message(int index) noexcept;

// Runs the body of an entry point. Returns 1, or 0 if the body throws; then the exception is this thread's message.
template <class Body>
int guarded(Body&& body) noexcept {
  clear_messages();
  try {
    body();
    return 1;
  } catch (const std::exception& e) {
    add_message(e.what());
  } catch (...) {
    add_message("an exception of unknown type");
  }
  return 0;
}

}  // namespace tenon::plugin
