// The plugin for MXNet under a host that is not MXNet: every function, from one thread and from many.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/mocks/mxnet/host.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"

namespace tenon::plugin {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

const char* const kModels[] = {"mlp",         "bert_layer", "lstm_cells",
                               "resnet18_v1", "same_twice", "outputs_twice"};

const Host& host() {
  static const Host loaded(kMxnetPlugin);
  return loaded;
}

int nodes_of(const std::string& json) {
  int count = 0;
  for (size_t at = json.find("\"op\""); at != json.npos; at = json.find("\"op\"", at + 1)) ++count;
  return count;
}

// options: of the partition. freeze=False: no parameter is a constant, also if earlier runs of this graph made it one.
std::vector<float> run_once(const Recorded& recorded, const Host::Strings& options = {}) {
  Recorded own = recorded;
  void* state = host().create(own.json, host().review(own.json, options), own.inputs);
  host().run(state, own.inputs, own.outputs);
  host().f._opCallDestroyOpState(state);
  std::vector<float> all;
  for (const Array& each : own.outputs) all.insert(all.end(), each.data.begin(), each.data.end());
  return all;
}

bool near(const std::vector<float>& got, const std::vector<float>& want) {
  float largest = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    error = std::max(error, std::abs(got[i] - want[i]));
  }
  return got.size() == want.size() && error <= 1e-5f * largest;
}

// The batch is the first size of inputs and outputs in which it is `from`.
void set_batch(Recorded& recorded, int64_t from, int64_t batch) {
  const auto change = [&](Array& array) {
    std::vector<int64_t> shape = array.shape;
    if (shape.empty() || shape[0] != from) return;
    shape[0] = batch;
    array = Array(shape);
    for (size_t i = 0; i < array.data.size(); ++i) array.data[i] = static_cast<float>(i % 17) / 16;
  };
  change(recorded.inputs[0]);
  for (Array& each : recorded.outputs) change(each);
}

TEST(MxnetHost, RegistersOneBackendAndItsOperator) {
  EXPECT_EQ(host().backend, "tenon");
  EXPECT_EQ(host().op, "_tenon_subgraph");
  EXPECT_EQ(host().is_subgraph, 1);
}

TEST(MxnetHost, RefusesAnotherVersionWithASentence) {
  const Functions f(kMxnetPlugin);
  EXPECT_EQ(f.initialize(10800), 0);
  EXPECT_THAT(host().messages(), HasSubstr("MXNet 1.9"));
  EXPECT_EQ(f.initialize(10901), 1);
  EXPECT_EQ(host().messages(), "");
}

TEST(MxnetHost, LoadsTwice) {
  const Host again(kMxnetPlugin);
  EXPECT_EQ(again.op, host().op);
}

TEST(MxnetHost, TakesWholeModelsInOnePart) {
  for (const char* name : kModels) {
    const Recorded recorded(name);
    std::vector<int> ids = host().supported(recorded.json, nodes_of(recorded.json));
    std::vector<int> parts(ids);
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    EXPECT_THAT(parts, testing::ElementsAre(-2, 0)) << name;
  }
}

TEST(MxnetHost, PartsFormNoCycle) {
  const Recorded recorded(
      "cycle");  // a, exp, cosh, add: exp and add must not be one part, because cosh lies between
  const std::vector<int> ids = host().supported(recorded.json, 4, {{"op_names", "exp,elemwise_add"}});
  EXPECT_EQ(ids[0], -2);
  EXPECT_EQ(ids[2], -2);
  EXPECT_TRUE(ids[1] != ids[3] || ids[1] == -2) << testing::PrintToString(ids);
}

TEST(MxnetHost, OptionsChooseOperators) {
  const Recorded recorded("mlp");
  const int count = nodes_of(recorded.json);
  EXPECT_THAT(host().supported(recorded.json, count, {{"min_nodes", "100"}}), Each(-2));
  EXPECT_THAT(host().supported(recorded.json, count, {{"op_names", "exp"}}), Each(-2));
  EXPECT_THAT(host().supported(recorded.json, count, {{"op_names", "['FullyConnected', 'Activation']"}}),
              testing::Contains(0));
  EXPECT_THAT(host().supported(recorded.json, count, {{"dedup_subgraph", "True"}}), testing::Contains(0));
  EXPECT_THAT([&] { host().supported(recorded.json, count, {{"mode", "fast"}}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("mode is \"inference\" or \"training\"")));
  EXPECT_THAT([&] { host().supported(recorded.json, count, {{"min_nodes", "-1"}}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("min_nodes")));
}

TEST(MxnetHost, TrainingModeLeavesBatchNormalizationToMxnet) {
  const Recorded recorded("resnet18_v1");
  EXPECT_THAT([&] { host().review(recorded.json, {{"mode", "training"}}); },
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("rejected"), HasSubstr("BatchNorm"))));
}

TEST(MxnetHost, ComputesAnMlp) {
  Recorded own("mlp");
  const std::vector<float> got = run_once(own);
  // Dense(relu), Dense(tanh), Dense
  std::vector<float> value = own.inputs[0].data;
  int64_t width = own.inputs[0].shape[1];
  const int64_t batch = own.inputs[0].shape[0];
  for (size_t layer = 0; layer < 3; ++layer) {
    const Array &weight = own.inputs[1 + 2 * layer], &bias = own.inputs[2 + 2 * layer];
    std::vector<float> next;
    for (int64_t row = 0; row < batch; ++row)
      for (int64_t unit = 0; unit < weight.shape[0]; ++unit) {
        double sum = bias.data[static_cast<size_t>(unit)];
        for (int64_t k = 0; k < width; ++k)
          sum += static_cast<double>(value[static_cast<size_t>(row * width + k)]) *
                 weight.data[static_cast<size_t>(unit * width + k)];
        next.push_back(static_cast<float>(layer == 0   ? std::max(sum, 0.0)
                                          : layer == 1 ? std::tanh(sum)
                                                       : sum));
      }
    value = next;
    width = weight.shape[0];
  }
  ASSERT_EQ(got.size(), value.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], value[i], 1e-4 * std::abs(value[i])) << i;
}

TEST(MxnetHost, WritesEveryOutput) {
  for (const char* name : kModels) {
    const std::vector<float> first = run_once(Recorded(name)), second = run_once(Recorded(name));
    EXPECT_EQ(first, second) << name;
    EXPECT_TRUE(std::all_of(first.begin(), first.end(), [](float x) { return std::isfinite(x); })) << name;
  }
}

// MXNet's pointers to the shapes of inputs may be invalid.
TEST(MxnetHost, ShapesAreThoseOfTheCreation) {
  Recorded own("mlp");
  const std::vector<float> want = run_once(own);
  void* state = host().create(own.json, {}, own.inputs);
  for (Array& each : own.inputs) std::fill(each.shape.begin(), each.shape.end(), -1);
  host().run(state, own.inputs, own.outputs);
  EXPECT_EQ(own.outputs[0].data, want);
  own.inputs[0].shape = {1, 2, 3};
  EXPECT_THAT([&] { host().run(state, own.inputs, own.outputs); },
              ThrowsMessage<std::runtime_error>(HasSubstr("other inputs than it announced")));
  host().f._opCallDestroyOpState(state);
}

TEST(MxnetHost, RefusesWithASentence) {
  Recorded own("mlp");
  EXPECT_THAT([&] { host().create("{\"nodes\": [", {}, own.inputs); },
              ThrowsMessage<std::runtime_error>(HasSubstr("[0]")));
  EXPECT_THAT([&] { host().create(own.json, {}, own.inputs, "gpu"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("on the CPU")));
  std::vector<Array> few(own.inputs.begin(), own.inputs.begin() + 2);
  EXPECT_THAT([&] { host().create(own.json, {}, few); },
              ThrowsMessage<std::runtime_error>(HasSubstr("inputs")));
  for (const int dtype : {kBool + 0, kBfloat16 + 0, 99}) {
    own.inputs[0].dtype = dtype;
    EXPECT_THAT([&] { host().create(own.json, {}, own.inputs); },
                ThrowsMessage<std::runtime_error>(HasSubstr("dtype")));
  }
  own.inputs[0].dtype = kFloat32;
  void* state = host().create(own.json, {}, own.inputs);
  EXPECT_THAT([&] { host().run(state, own.inputs, own.outputs, false); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no gradient")));
  std::vector<Array> wrong{Array({3, 3})};
  EXPECT_THAT([&] { host().run(state, own.inputs, wrong); },
              ThrowsMessage<std::runtime_error>(HasSubstr("[0]")));
  host().run(state, own.inputs, own.outputs);
  EXPECT_EQ(host().messages(), "");
  host().f._opCallDestroyOpState(state);
}

TEST(MxnetHost, FunctionsThatItRegistersNothingForFail) {
  const Functions& f = host().f;
  int a = 0, b = 0;
  int *c = nullptr, *d = nullptr;
  unsigned **e = nullptr, **g = nullptr;
  char* text = nullptr;
  void* selector = nullptr;
  const auto refused = [](int result) {
    EXPECT_EQ(result, 0);
    EXPECT_THAT(host().messages(), HasSubstr("Tenon registers"));
  };
  refused(f._opCallParseAttrs(nullptr, nullptr, nullptr, 0, &a, &b));
  refused(f._opCallInferShape(nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, &e, &c, &g, &d, 0));
  refused(f._opCallInferType(nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, 0));
  refused(f._opCallInferSType(nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, 0));
  refused(f._opCallFCompute(nullptr, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr,
                            nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                            nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                            nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                            nullptr, nullptr, nullptr));
  refused(f._opCallMutateInputs(nullptr, nullptr, nullptr, 0, &c, &a));
  refused(f._partCallCreateSelector(nullptr, "{}", &selector, nullptr, nullptr, 0));
  refused(f._passCallGraphPass(nullptr, "{}", &text, nullptr, nullptr, 0, "", nullptr, 0, nullptr, nullptr,
                               nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr, nullptr,
                               nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
  int selected = 1, *kept = nullptr, count = 1;
  f._partCallSelect(nullptr, 0, &selected);
  EXPECT_EQ(selected, 0);
  f._partCallSelectInput(nullptr, 0, 0, &(selected = 1));
  EXPECT_EQ(selected, 0);
  f._partCallSelectOutput(nullptr, 0, 0, &(selected = 1));
  EXPECT_EQ(selected, 0);
  f._partCallFilter(nullptr, nullptr, 0, &kept, &count);
  EXPECT_EQ(count, 0);
  f._opCallFree(kept);
  f._partCallReset(nullptr);
  Token pass = nullptr;
  const char* name = nullptr;
  f._passRegGet(0, &pass, &name);
  EXPECT_STREQ(name, "");
  f._opCallDestroyOpState(nullptr);
  EXPECT_STREQ(
      [&] {
        f._msgGet(-1, &name);
        return name;
      }(),
      "");
}

// Eight threads do everything at once, each with its own arrays; states are destroyed on other threads than they were created on.
TEST(MxnetHost, EightThreads) {
  std::vector<Recorded> models;
  std::vector<std::vector<float>> expected;
  for (const char* name : {"mlp", "lstm_cells", "outputs_twice"}) {
    models.emplace_back(name);
    expected.push_back(run_once(models.back()));
  }
  std::vector<std::atomic<void*>> left(8);
  std::atomic<int> wrong{0};
  const auto work = [&](size_t number, size_t round) {
    const size_t which = (number + round) % models.size();
    Recorded own = models[which];
    const bool other_batch = which != 2 && round % 4 == 3;
    if (other_batch) set_batch(own, own.inputs[0].shape[0], static_cast<int64_t>(2 + round % 5));
    host().supported(own.json, nodes_of(own.json));
    const Host::Strings options{{"freeze", round % 2 ? "True" : "False"}};
    void* state = host().create(own.json, host().review(own.json, options), own.inputs);
    host().run(state, own.inputs, own.outputs);
    std::vector<float> got;
    for (const Array& each : own.outputs) got.insert(got.end(), each.data.begin(), each.data.end());
    if (!other_batch) wrong += !near(got, expected[which]);
    host().f._opCallDestroyOpState(left[(number + 3) % left.size()].exchange(state));
    EXPECT_THAT([&] { host().create(own.json, {{"tenon_mode", "none"}}, own.inputs); },
                ThrowsMessage<std::runtime_error>(HasSubstr("mode is")));
  };
  std::vector<std::thread> threads;
  for (size_t number = 0; number < left.size(); ++number)
    threads.emplace_back([&, number] {
      for (size_t round = 0; round < (kSanitized ? 6 : 40); ++round) EXPECT_NO_THROW(work(number, round));
    });
  for (std::thread& each : threads) each.join();
  for (auto& each : left) host().f._opCallDestroyOpState(each);
  EXPECT_EQ(wrong, 0);
}

const Host::Strings kTrains{{"tenon_mode", "training"}, {"tenon_guarded", "True"}};

// A training step: the outputs of the forward pass, and the gradients for derivatives of ones by the outputs.
struct Step {
  std::vector<Array> outputs, gradients;

  Step(void* state, const Recorded& recorded) : outputs(recorded.outputs), gradients(recorded.inputs) {
    std::vector<Array> inputs = recorded.inputs;
    host().run(state, inputs, outputs);
    std::vector<Array> given = outputs;
    for (Array& each : given) std::fill(each.data.begin(), each.data.end(), 1.f);
    given.insert(given.end(), inputs.begin(), inputs.end());
    given.insert(given.end(), outputs.begin(), outputs.end());
    for (Array& each : gradients) std::fill(each.data.begin(), each.data.end(), NAN);
    host().run(state, given, gradients, false);
  }
  std::vector<float> all() const {
    std::vector<float> all;
    for (const Array& each : gradients) all.insert(all.end(), each.data.begin(), each.data.end());
    return all;
  }
};

Step step_once(const Recorded& recorded) {
  void* state = host().create(recorded.json, kTrains, recorded.inputs);
  Step step(state, recorded);
  host().f._opCallDestroyOpState(state);
  return step;
}

// The sum of the outputs changes along a direction as the gradients say.
TEST(MxnetHost, GradientsAreDerivatives) {
  for (const char* name : {"mlp", "bert_layer", "same_twice", "outputs_twice"}) {
    Recorded recorded(name);
    const std::string drops = "\"p\": \"0.1\"";
    for (size_t at; (at = recorded.json.find(drops)) != recorded.json.npos;)
      recorded.json.replace(at, drops.size(), "\"p\": \"0.0\"");
    const Step step = step_once(recorded);
    for (size_t which = 0; which < recorded.inputs.size(); ++which) {
      double want = 0, ends[2] = {0, 0};
      for (const int end : {0, 1}) {
        Recorded moved = recorded;
        for (size_t i = 0; i < moved.inputs[which].data.size(); ++i) {
          const float way = static_cast<float>(i % 5) / 4 - 0.45f;
          moved.inputs[which].data[i] += (end ? 1 : -1) * way / 256;
          if (end) want += static_cast<double>(way) * step.gradients[which].data[i];
        }
        for (const float each : run_once(moved)) ends[end] += each;
      }
      const double got = (ends[1] - ends[0]) * 128;
      EXPECT_NEAR(got, want, 2e-2 * std::max(1.0, std::abs(want))) << name << " input " << which;
    }
  }
}

TEST(MxnetHost, GradientsOfOtherSizesAndOfIntegers) {
  const int64_t batch = Recorded("mlp").inputs[0].shape[0];
  for (const int64_t size : {batch, batch + 3, int64_t{1}, batch + 5}) {
    Recorded other("mlp");
    set_batch(other, batch, size);
    const Step step = step_once(other);
    ASSERT_EQ(step.gradients[0].data.size(), other.inputs[0].data.size());
    EXPECT_TRUE(std::none_of(step.gradients[0].data.begin(), step.gradients[0].data.end(),
                             [](float x) { return std::isnan(x); }));
    // The last bias is added to every row.
    EXPECT_THAT(step.gradients.back().data, Each(testing::FloatEq(static_cast<float>(size))));
  }
  Recorded indices("mlp");
  indices.json =
      "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, {\"op\": \"null\", \"name\": \"w\", "
      "\"inputs\": []}, "
      "{\"op\": \"Embedding\", \"name\": \"e\", \"attrs\": {\"input_dim\": \"3\", \"output_dim\": \"2\"}, "
      "\"inputs\": [[0, 0, 0], [1, 0, 0]]}], \"arg_nodes\": [0, 1], \"heads\": [[2, 0, 0]]}";
  indices.inputs = {Array({4}), Array({3, 2})};
  indices.inputs[0].dtype = kInt32;  // four zeros
  indices.outputs = {Array({4, 2})};
  const Step step = step_once(indices);
  EXPECT_THAT(step.gradients[0].data, Each(0.f));
  EXPECT_THAT(step.gradients[1].data, testing::ElementsAre(4, 4, 0, 0, 0, 0));
}

TEST(MxnetHost, RefusesGradientsWithASentence) {
  Recorded own("mlp");
  const auto refused = [&](const Host::Strings& attributes, const char* why) {
    void* state = host().create(own.json, attributes, own.inputs);
    EXPECT_THAT([&] { Step(state, own); }, ThrowsMessage<std::runtime_error>(HasSubstr(why)));
    host().f._opCallDestroyOpState(state);
  };
  refused({}, "partition it with mode=\"training\"");
  refused({{"tenon_guarded", "True"}}, "partition it with mode=\"training\"");
  refused({{"tenon_mode", "training"}}, "without tenon.mxnet.load()");
  EXPECT_THAT(
      [&] { host().create(own.json, {{"tenon_mode", "training"}, {"tenon_freeze", "True"}}, own.inputs); },
      ThrowsMessage<std::runtime_error>(HasSubstr("freeze is for inference")));
  void* state = host().create(own.json, kTrains, own.inputs);
  EXPECT_THAT([&] { host().run(state, own.outputs, own.inputs, false); },
              ThrowsMessage<std::runtime_error>(HasSubstr("before it runs the graph")));
  host().run(state, own.inputs, own.outputs);
  EXPECT_THAT([&] { host().run(state, own.outputs, own.inputs, false); },
              ThrowsMessage<std::runtime_error>(HasSubstr("other inputs than it announced")));
  host().f._opCallDestroyOpState(state);
}

TEST(MxnetHost, EightThreadsTrain) {
  std::vector<Recorded> models;
  std::vector<std::vector<float>> expected;
  for (const char* name : {"mlp", "lstm_cells", "outputs_twice"}) {
    models.emplace_back(name);
    expected.push_back(step_once(models.back()).all());
  }
  std::atomic<int> wrong{0};
  const auto work = [&](size_t number, size_t round) {
    const size_t which = (number + round) % models.size();
    Recorded own = models[which];
    const bool other_batch = which != 2 && round % 4 == 3;
    if (other_batch) set_batch(own, own.inputs[0].shape[0], static_cast<int64_t>(2 + round % 5));
    const Step step = step_once(own);
    if (!other_batch) wrong += !near(step.all(), expected[which]);
  };
  std::vector<std::thread> threads;
  for (size_t number = 0; number < 8; ++number)
    threads.emplace_back([&, number] {
      for (size_t round = 0; round < (kSanitized ? 6 : 40); ++round) EXPECT_NO_THROW(work(number, round));
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
}

TEST(MxnetHost, ConstantParametersThatChangeAreNoticed) {
  Recorded own("mlp"), fresh("mlp");
  const Host::Strings attributes = host().review(own.json, {{"freeze", "True"}});
  EXPECT_EQ(attributes.at("tenon_freeze"), "True");
  void* state = host().create(own.json, attributes, own.inputs);
  for (const float factor : {1.f, 1.f, 0.5f, 2.f}) {
    for (float& each : own.inputs[1].data) each *= factor;
    host().run(state, own.inputs, own.outputs);
    fresh.inputs = own.inputs;
    EXPECT_TRUE(near(own.outputs[0].data, run_once(fresh, {{"freeze", "False"}}))) << factor;
  }
  host().f._opCallDestroyOpState(state);
  EXPECT_THAT([&] { host().review(own.json, {{"freeze", "True"}, {"mode", "training"}}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("freeze is for inference")));
}

// Without the option, parameters become constants once several calls have brought the same ones.
TEST(MxnetHost, ParametersThatStayTheSameBecomeConstants) {
  Recorded own("mlp"), fresh("mlp");
  const Host::Strings attributes = host().review(own.json);
  EXPECT_EQ(attributes.at("tenon_freeze"), "auto");
  void* state = host().create(own.json, attributes, own.inputs);
  for (int round = 0; round < 12; ++round) {
    // They stay for four calls, then change in each, then stay again.
    const bool changes = round == 4 || round == 5 || round == 6;
    for (float& each : own.inputs[1].data) each *= changes ? 0.5f : 1.f;
    host().run(state, own.inputs, own.outputs);
    fresh.inputs = own.inputs;
    EXPECT_TRUE(near(own.outputs[0].data, run_once(fresh, {{"freeze", "False"}}))) << round;
  }
  host().f._opCallDestroyOpState(state);
}

// A known shape finds its program without reading the text again.
TEST(MxnetHost, AKnownShapeCostsMicroseconds) {
  Recorded own("mlp");
  run_once(own);
  double best = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    host().f._opCallDestroyOpState(host().create(own.json, {}, own.inputs));
    best = std::min(
        best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  EXPECT_LT(best, kSanitized ? 1e6 : 20);
}

}  // namespace
}  // namespace tenon::plugin
