// A host in C++11 that uses only the C++ header and the shared library.
#include <tenon/tenon.hpp>

#include <cstdio>
#include <string>

namespace {

int failures = 0;
void expect(bool good, const char* what, int line) {
  if (good) return;
  ++failures;
  std::printf("tests/abi/hpp.cc:%d: %s\n", line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

void run() {
  tenon::GraphBuilder b("scale");
  float two[] = {2, 3};
  const tenon_value x = b.input("x", tenon::dtype_of<float>(), "N,2");
  const tenon_value c = b.constant(tenon::Tensor(two, {2}));
  const tenon_value m = b.node("mul", {x, c});
  const tenon_value y = b.node("sum", {m}, "axes=[1]", "y");
  const tenon::Graph graph = b.finish({y});
  EXPECT(graph.print().find("graph @scale(%x: f32[N,2])") == 0);
  EXPECT(tenon::Graph::parse(graph.print()).print() == graph.print());
  EXPECT(graph.query().size() == 2 && graph.query()[0].op == "mul" && !graph.query()[0].backend.empty());

  tenon::Program program(graph);
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): this tests that copies share a program
  tenon::Program same = program;
  float in[] = {1, 2, 3, 4}, out[] = {0, 0};
  same.run(std::vector<tenon::Tensor>{tenon::Tensor(in, {2, 2})},
           std::vector<tenon::Tensor>{tenon::Tensor(out, {2})});
  EXPECT(out[0] == 8 && out[1] == 18);
  same.set_limits(5, 0);
  EXPECT(same.stats().plans == 1 && tenon::cache_stats().hits == 0);
  EXPECT(same.stats().nodes == program.stats().nodes && !program.explain().empty() &&
         program.explain(true)[0] == '{');
  try {
    program.run(std::vector<tenon::Tensor>{tenon::Tensor(in, {4})},
                std::vector<tenon::Tensor>{tenon::Tensor(out, {2})});
    EXPECT(!"a wrong rank is refused");
  } catch (const tenon::Error& e) {
    EXPECT(e.status() == TENON_INVALID && std::string(e.what()).find("f32[N,2]") != std::string::npos);
  }
}

void freeze() {
  const tenon::Graph graph =
      tenon::Graph::parse("graph @f(%x: f32[2], %w: f32[2] param) {\n  %y = add(%x, %w)\n  return %y\n}\n");
  float x[] = {1, 2}, w[] = {10, 20}, y[] = {0, 0};
  const tenon::Tensor tx(x, {2}), tw(w, {2}), ty(y, {2});
  tenon_program_options options = tenon::init<tenon_program_options>();
  options.freeze = 1;
  const tenon::Program program(graph, options, {nullptr, &tw});
  program.run(std::vector<const tenon::Tensor*>{&tx, nullptr}, std::vector<const tenon::Tensor*>{&ty});
  EXPECT(y[0] == 11 && y[1] == 22);
}

void symbol() {
  const std::string json =
      "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, "
      "{\"op\": \"relu\", \"name\": \"r\", \"inputs\": [[0, 0]]}], \"heads\": [[1, 0]]}";
  const tenon::Symbol symbol = tenon::Symbol::parse(json);
  EXPECT(tenon::Symbol::parse(symbol.print()).print() == symbol.print());
  EXPECT(symbol.variables() == std::vector<std::string>{"x"});
  EXPECT(symbol.query().size() == 1 && symbol.query()[0].translated);
  EXPECT((symbol.partition() == std::vector<int32_t>{-1, 0}));
  const tenon::Graph graph = symbol.graph({tenon::SymbolInput("x", tenon::dtype_of<float>(), "N")});
  EXPECT(graph.print().find("%x: f32[N]") != std::string::npos);
  const std::string bytes("\x12\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
  EXPECT(tenon::Params::parse(bytes).size() == 0);
}

}  // namespace

int main() {
  run();
  freeze();
  symbol();
  tenon::Program moved, none = std::move(moved);
  EXPECT(!none);
  std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
