// The threads that back ends and libraries share with the host. Tested by tests/bench_test.py and
// tests/torch/test_threads.py.
#pragma once

namespace tenon {

// From here on, OpenMP regions that the calling thread starts have this many threads, those of libraries too. Defined in backends/cpu/threads.cc.
void set_host_threads(int threads);

// HostThreadLimit lowers the number of these threads to `most` for as long as it lives, on the thread that made it.
class HostThreadLimit {
 public:
  explicit HostThreadLimit(int most);
  ~HostThreadLimit();
  HostThreadLimit(const HostThreadLimit&) = delete;
  HostThreadLimit& operator=(const HostThreadLimit&) = delete;

 private:
  int before_ = 0;  // 0: nothing has changed
};

}  // namespace tenon
