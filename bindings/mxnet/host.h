// What the plugin asks of the MXNet that loaded it, beyond the interface of abi.h.
#pragma once

namespace tenon::plugin {

// Finds the functions of the library that holds `caller`, the address of an instruction.
void find_host(const void* caller) noexcept;

// Whether this thread is inside autograd.record() or autograd.train_mode(). False if the host cannot say.
bool host_is_training() noexcept;

}  // namespace tenon::plugin
