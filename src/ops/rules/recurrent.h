// The modes of the row recurrent. Tested by tests/unit/backends/recurrent_test.cc.
#pragma once

#include <string_view>

namespace tenon {

// How many gates a mode has; 0: there is no such mode.
inline int gates_of(std::string_view mode) {
  return mode == "lstm" ? 4 : mode == "gru" ? 3 : mode == "tanh" || mode == "relu" ? 1 : 0;
}

}  // namespace tenon
