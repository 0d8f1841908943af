// The threads that back ends and libraries share with the host. Tested by tests/bench_test.py.
#pragma once

namespace tenon {

// From here on, OpenMP regions that the calling thread starts have this many threads, those of libraries too. Defined in backends/cpu/threads.cc.
void set_host_threads(int threads);

}  // namespace tenon
