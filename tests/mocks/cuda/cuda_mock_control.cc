// The controls of the mock driver; see cuda_mock.h.
#include "tests/mocks/cuda/cuda_mock_state.h"

TN_CONTROLS(tn_mock_)

TN_CONTROL const char* tn_mock_leaks() {
  State& s = state();
  const std::lock_guard guard(s.lock);
  std::string text = s.faults;
  for (const auto& [device, c] : s.contexts)
    if (c.retained) text += cat("context ", c.name, " is retained ", c.retained, " times\n");
  if (capture_mode != 0) text += cat("this thread's mode of captures is ", capture_mode, "\n");
  for (const Context* c : stack) text += "context " + c->name + " is on the stack\n";
  auto tell = [&](const char* kind, const auto& objects) {
    for (const auto& [at, object] : objects) text += cat(kind, " ", object->name, " is alive\n");
  };
  tell("library", s.libraries);
  tell("graph", s.graphs);
  tell("executable", s.execs);
  tell("event", s.events);
  tell("stream", s.streams);
  for (const auto& m : s.memory) {
    check_canaries(*m, "seen at the end");
    if (m->block) text += cat("memory ", m->name, " of ", m->bytes, " bytes is not freed\n");
  }
  return s.say(text);
}

TN_CONTROL void tn_mock_reset() {
  State& s = state();
  const std::lock_guard guard(s.lock);
  for (const auto& m : s.memory) std::free(m->block);
  for (auto& [device, c] : s.contexts) c.retained = 0;  // contexts stay, so that their handles remain valid
  stack.clear();
  s.memory.clear();
  s.libraries.clear();
  s.kernels.clear();
  s.graphs.clear();
  s.execs.clear();
  s.events.clear();
  s.capturing.clear();
  s.captured.clear();
  s.streams.clear();
  s.stream_device.clear();
  s.copies.clear();
  capture_mode = 0;
  s.forget_calls();
  s.made.clear();
  s.order = 0;
  s.initialized = false;
  s.settings = {};
  s.settings.read(std::getenv("CUDA_MOCK"));
}

TN_CONTROL void tn_mock_set(const char* settings) {
  const std::lock_guard guard(state().lock);
  state().settings.read(settings);
}

TN_CONTROL void tn_mock_order(int order) {
  const std::lock_guard guard(state().lock);
  state().order = order;
}

TN_CONTROL void tn_mock_capture(void* stream, int status) {
  const std::lock_guard guard(state().lock);
  state().capturing[stream] = status;
}

// For other mocks: queues the work of a library call on a stream.
TN_CONTROL void tn_mock_queue(void* stream, const std::function<void()>& work, const char* text) {
  const std::lock_guard guard(state().lock);
  queue(static_cast<CuStream>(stream), {{}, work, text});
}

// For other mocks: whether a stream captures that this thread captures, or whose capture forbids this thread to make objects.
TN_CONTROL int tn_mock_captures() {
  const std::lock_guard guard(state().lock);
  return unsafe() || std::ranges::any_of(state().captured, [](const auto& stream) {
           return stream.second->thread == std::this_thread::get_id();
         });
}

TN_CONTROL void tn_mock_stream_device(void* stream, int device) {
  const std::lock_guard guard(state().lock);
  state().stream_device[stream] = device;
}

TN_CONTROL void tn_mock_adopt(void* memory, size_t bytes, int device) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  std::erase_if(s.memory, [&](const auto& m) { return !m->block && m->data == memory; });
  if (bytes == 0) return;
  auto m = std::make_unique<Memory>();
  m->name = s.number("H");
  m->data = static_cast<char*>(memory);
  m->bytes = bytes;
  m->device = device;
  s.memory.push_back(std::move(m));
}
