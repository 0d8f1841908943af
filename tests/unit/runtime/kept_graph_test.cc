// Optimised graphs on disk: a program of a kept graph is the program that the passes make.
#include "src/runtime/compile/kept_graph.h"

#include <gmock/gmock.h>

#include <map>

#include "src/base/log.h"
#include "src/passes/pipeline.h"
#include "tests/support/run_help.h"
#include "tests/support/store_help.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;

// The events of the topic "cache" that name a graph.
struct Events {
  std::map<std::string, int> of;
  std::string text;
  Events() {
    set_logger(
        [](void* user, const char* topic, const char* message) {
          auto& events = *static_cast<Events*>(user);
          const std::string line = message;
          if (std::string(topic) != "cache" || line.find(",graph,") == std::string::npos) return;
          ++events.of[line.substr(0, line.find(','))];
          events.text += line + "\n";
        },
        this);
  }
  ~Events() { set_logger(nullptr, nullptr); }
  std::map<std::string, int> take() { return std::exchange(of, {}); }
};

using Counts = std::map<std::string, int>;

// A chain of layers over symbolic sizes. It has folded constants, a library call, an updated and a donated input.
std::string text_of(int layers, const std::string& name = "chain", const std::string& n = "N") {
  std::string text = "graph @" + name + "(%x: f32[" + n + ",8], %w: f32[8,8] param, %count: f32[" + n +
                     "] donated, %sum: f32[8]) {\n  assume " + n + " in [1, inf]\n";
  text += "  %k = iota{shape=[8], dtype=f32}\n  %e = exp(%k)\n  %h0 = mul(%x, %e)\n";
  for (int i = 0; i < layers; ++i) {
    const std::string a = std::to_string(i), b = std::to_string(i + 1);
    text += "  %m" + a + " = matmul(%h" + a + ", %w)\n  %t" + a + " = tanh(%m" + a + ")\n  %s" + a +
            " = sum(%t" + a + "){axes=[1], keepdims=true}\n  %r" + a + " = expand(%s" + a + "){shape=[" + n +
            ",8]}\n  %h" + b + " = sub(%t" + a + ", %r" + a + ")\n";
  }
  const std::string last = "%h" + std::to_string(layers);
  return text + "  %c = sum(" + last + "){axes=[1]}\n  %d = add(%c, %count)\n  %u = sum(" + last +
         "){axes=[0]}\n  %v = add(%u, %sum)\n  return " + last + ", %d, %v updates %sum\n}\n";
}

Graph graph_of(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message() << text;
  return std::move(*graph);
}

std::shared_ptr<Program> made(const Graph& graph, const ProgramOptions& options = {}) {
  auto program = Program::make(graph, options, {});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return program.ok() ? *program : nullptr;
}

// The bytes of all outputs, and of the updated input, at N = 5.
std::string results(Program& program) {
  std::vector<HostTensor> in = {random_tensor(DType::f32, {5, 8}, 1), random_tensor(DType::f32, {8, 8}, 2),
                                random_tensor(DType::f32, {5}, 3), random_tensor(DType::f32, {8}, 4)};
  std::vector<HostTensor> out = {HostTensor(DType::f32, {5, 8}), HostTensor(DType::f32, {5})};
  const Status ran = run(program, in, out);
  EXPECT_TRUE(ran.ok()) << ran.message();
  std::string bytes;
  for (const HostTensor* t : {&out[0], &out[1], &in[3]})
    bytes.append(reinterpret_cast<const char*>(t->bytes.data()), t->bytes.size());
  return bytes;
}

TEST(KeptGraph, TheSecondProgramIsTheFirst) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  Events events;
  const Graph graph = graph_of(text_of(16));
  const auto first = made(graph);
  EXPECT_EQ(events.take(), (Counts{{"miss", 1}, {"store", 1}}));
  const auto second = made(graph);
  EXPECT_EQ(events.take(), (Counts{{"hit", 1}}));
  EXPECT_EQ(results(*first), results(*second));
  EXPECT_EQ(first->explain(false), second->explain(false));
  const auto a = first->stats(), b = second->stats();
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.kernels, b.kernels);
  EXPECT_EQ(a.steps, b.steps);
  // A graph of another name finds the entry, and its program has its own name.
  const auto renamed = made(graph_of(text_of(16, "other")));
  EXPECT_EQ(events.take(), (Counts{{"hit", 1}}));
  EXPECT_THAT(renamed->explain(false), Not(HasSubstr("@chain")));
}

TEST(KeptGraph, WhatDecidesAboutPassesIsInTheKey) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  Events events;
  const Graph graph = graph_of(text_of(16));
  made(graph);
  events.take();
  const Counts anew = {{"miss", 1}, {"store", 1}};
  made(graph_of(text_of(17)));
  EXPECT_EQ(events.take(), anew);
  made(graph_of(text_of(16, "chain", "M")));
  EXPECT_EQ(events.take(), anew) << "names of symbols";
  ProgramOptions options;
  options.backends = {"cpu", "reference"};
  const auto loops = made(graph, options);
  EXPECT_EQ(events.take(), anew);
  EXPECT_THAT(loops->explain(false), Not(HasSubstr("onednn")));
  options = {};
  options.without = {"fuse"};
  EXPECT_GT(made(graph, options)->stats().steps, loops->stats().steps);
  EXPECT_EQ(events.take(), anew);
  setenv("TENON_WINOGRAD", "off", 1);
  made(graph);
  unsetenv("TENON_WINOGRAD");
  EXPECT_EQ(events.take(), anew);
  made(graph);
  EXPECT_EQ(events.take(), (Counts{{"hit", 1}}));
}

TEST(KeptGraph, WhatStaysOut) {
  ScratchDirectory scratch;
  Events events;
  {
    Disk disk(at(scratch / "c"));
    made(graph_of(text_of(2)));
    EXPECT_EQ(events.take(), Counts{}) << "a small graph";
    HostTensor w = random_tensor(DType::f32, {8, 8}, 2);
    std::vector<Tensor> params(4);
    params[1] = tensor_of(w);
    ProgramOptions options;
    options.freeze = true;
    ASSERT_TRUE(Program::make(graph_of(text_of(16)), options, params).ok());
    EXPECT_EQ(events.take(), Counts{}) << "frozen parameters";
    std::string text = text_of(16);
    const std::string folded = "  %e = exp(%k)\n";
    text.insert(text.find(folded) + folded.size(),
                "  %f = iota{shape=[1000,1000], dtype=f32}\n  %g = exp(%f)\n");
    text.replace(text.find("return "), 7, "return %g, ");
    made(graph_of(text));
    EXPECT_EQ(events.take(), (Counts{{"miss", 1}})) << "large folded constants";
    options = {};
    options.backends = {"attention"};
    std::string unfolded = text_of(16);
    unfolded.replace(unfolded.find("mul(%x, %e)"), 11, "mul(%x, %x)");
    EXPECT_FALSE(Program::make(graph_of(unfolded), options, {}).ok());
    EXPECT_EQ(events.take(), (Counts{{"miss", 1}})) << "a graph of which no program can be made";
    setenv("TENON_DUMP", "fuse", 1);
    made(graph_of(text_of(16)));
    unsetenv("TENON_DUMP");
    EXPECT_EQ(events.take(), Counts{}) << "a dump shows all passes";
  }
  StoreOptions options = at(scratch / "d");
  options.mode = StoreMode::off;
  Disk off(options);
  made(graph_of(text_of(16)));
  EXPECT_EQ(events.take(), Counts{});
}

// Replaces the object of the only graph on disk.
void replace_object(Store& store, const std::function<void(std::string&)>& change) {
  auto items = store.list();
  ASSERT_TRUE(items.ok());
  int graphs = 0;
  for (const Store::Item& item : *items) {
    auto entry = store.read(item.file);
    ASSERT_TRUE(entry.ok());
    if (!entry->producer.starts_with(kGraphProducer)) continue;
    ++graphs;
    change(entry->object);
    ASSERT_TRUE(store.save(*entry).ok());
  }
  ASSERT_EQ(graphs, 1);
}

TEST(KeptGraph, AnEntryThatCannotBeUsedIsMadeAnew) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  Events events;
  const Graph graph = graph_of(text_of(16));
  const std::string expected = results(*made(graph));
  const auto replaced = [](const std::string& from, const std::string& to) {
    return [=](std::string& object) {
      const size_t at = object.find(from);
      ASSERT_NE(at, std::string::npos) << object;
      object.replace(at, from.size(), to);
    };
  };
  const std::pair<std::function<void(std::string&)>, std::string> cases[] = {
      {[](std::string& object) { object.resize(object.size() / 2); }, "1:"},
      {[](std::string& object) { object.clear(); }, "1:1: expected"},
      {replaced("group 0 = cpu", "group 0 = nobody"), "no back end"},
      {replaced("assume N", "assume M"), "other symbols"},
      {replaced("%count: f32[N]", "%count: f32[N+1]"), ""},
  };
  for (const auto& [change, why] : cases) {
    replace_object(disk.store, change);
    events.take();
    events.text.clear();
    EXPECT_EQ(results(*made(graph)), expected) << why;
    EXPECT_EQ(events.of["refused"], 1) << why << "\n" << events.text;
    EXPECT_EQ(events.of["store"], 1) << why;
    EXPECT_THAT(events.text, HasSubstr(why));
  }
}

}  // namespace
}  // namespace tenon
