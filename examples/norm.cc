// The C++ interface: a graph built node by node, its text, a run, and what was compiled.
#include <tenon/tenon.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

// y = x + rms_norm(x) * w, for any number of rows of any width: one kernel.
tenon::Graph residual_norm() {
  tenon::GraphBuilder b("residual_norm");
  const tenon_value x = b.input("x", tenon::dtype_of<float>(), "N,D");
  const tenon_value w = b.input("w", tenon::dtype_of<float>(), "D");
  const tenon_value n = b.node("rms_norm", {x, w}, "axes_count=1, eps=1e-6");
  return b.finish({b.node("add", {x, n}, "", "y")});
}

// The largest difference from the formula.
float run(const tenon::Program& program, int64_t rows, int64_t width) {
  std::vector<float> x(static_cast<size_t>(rows * width)), w(static_cast<size_t>(width)), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<float>(i));
  program.run(std::vector<tenon::Tensor>{{x.data(), {rows, width}}, {w.data(), {width}}},
              std::vector<tenon::Tensor>{{y.data(), {rows, width}}});
  float worst = 0;
  for (size_t begin = 0; begin < x.size(); begin += w.size()) {
    float squares = 0;
    for (size_t i = 0; i < w.size(); ++i) squares += x[begin + i] * x[begin + i];
    const float scale = 1 / std::sqrt(squares / static_cast<float>(width) + 1e-6F);
    for (size_t i = 0; i < w.size(); ++i)
      worst = std::max(worst, std::abs(y[begin + i] - x[begin + i] * (1 + scale * w[i])));
  }
  return worst;
}

}  // namespace

int main() try {
  const tenon::Graph graph = residual_norm();
  std::printf("%s", graph.print().c_str());
  const tenon::Program program(graph);
  const float worst = std::max(run(program, 4, 64), run(program, 7, 100));
  const tenon_program_stats stats = program.stats();
  std::printf("%lld nodes in %lld kernels, largest difference %g\n", static_cast<long long>(stats.nodes),
              static_cast<long long>(stats.kernels), static_cast<double>(worst));
  return worst < 1e-5F ? 0 : 1;
} catch (const tenon::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
