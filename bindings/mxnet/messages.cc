#include "bindings/mxnet/messages.h"

#include <cstring>

namespace tenon::plugin {
namespace {

constexpr int kMost = 4;
constexpr size_t kBytes = 2048;

struct Ring {
  char text[kMost][kBytes];
  int first, count;
};
// Without constructor and destructor, so that a thread that ends has nothing to run.
thread_local Ring ring;

}  // namespace

void clear_messages() noexcept { ring.first = ring.count = 0; }

void add_message(const char* text) noexcept {
  if (ring.count == kMost)
    ring.first = (ring.first + 1) % kMost;
  else
    ++ring.count;
  char* out = ring.text[(ring.first + ring.count - 1) % kMost];
  const size_t length = strnlen(text, kBytes - 1);
  std::memcpy(out, text, length);
  out[length] = 0;
}

int message_count() noexcept { return ring.count; }

const char* message(int index) noexcept {
  return index < 0 || index >= ring.count ? "" : ring.text[(ring.first + index) % kMost];
}

}  // namespace tenon::plugin
