// The plugin for MXNet in a forked child, as a DataLoader makes them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/mocks/mxnet/host.h"
#include "tests/support/paths.h"

namespace tenon::plugin {
namespace {

bool runs(const Host& host, const char* model) {
  Recorded own(model);
  void* state = host.create(own.json, {}, own.inputs);
  host.run(state, own.inputs, own.outputs);
  host.f._opCallDestroyOpState(state);
  return own.outputs[0].data[0] != 0;
}

TEST(MxnetFork, AChildRunsKnownAndNewGraphs) {
  const Host host(kMxnetPlugin);
  Recorded own("mlp");
  void* state = host.create(own.json, {}, own.inputs);
  host.run(state, own.inputs, own.outputs);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    host.run(state, own.inputs, own.outputs);
    host.f._opCallDestroyOpState(state);
    _exit(runs(host, "mlp") && runs(host, "same_twice") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(runs(host, "mlp"));
  host.f._opCallDestroyOpState(state);
}

}  // namespace
}  // namespace tenon::plugin
