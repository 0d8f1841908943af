// Walks every row of the op table: it has the columns that its kind needs, its samples infer for every dtype that it takes, its body
// has exactly its type, and the evaluator computes it, also with symbolic sizes. This file names no op; samples come by shape
// rule from op_samples.h.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "jit/group_kernels.h"
#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/ops/rows/names.h"
#include "src/ops/table.h"
#include "src/passes/passes.h"
#include "tests/support/op_samples.h"

namespace tenon {
namespace {

constexpr int64_t kSymbolValues[] = {3, 4, 2};  // the values of symbols in order of appearance

DType dtype_at(int i) { return static_cast<DType>(i); }

// Small integers, so that sums of products are exact in every dtype and order; 0 and 1 for bool.
HostTensor small_integers(DType dtype, std::vector<int64_t> shape, unsigned seed) {
  HostTensor out(dtype, std::move(shape));
  std::mt19937 random(seed);
  const int low = dtype == DType::u8 || is_bool(dtype) ? 0 : -3, high = is_bool(dtype) ? 1 : 3;
  std::uniform_int_distribution<int> number(low, high);
  for (int64_t i = 0; i < out.count(); ++i) out.set_number(i, number(random));
  return out;
}

std::vector<HostTensor> inputs_for(const Graph& graph,
                                   HostTensor (*make)(DType, std::vector<int64_t>, unsigned)) {
  std::vector<int64_t> values(std::begin(kSymbolValues), std::end(kSymbolValues));
  values.resize(std::max<size_t>(graph.dims->symbol_count(), 3), 2);
  std::vector<HostTensor> inputs;
  for (const InputBinding& input : graph.inputs) {
    std::vector<int64_t> shape;
    for (Dim d : graph.type(input.value).shape) shape.push_back(*graph.dims->eval(d, values));
    inputs.push_back(
        make(graph.type(input.value).dtype, std::move(shape), static_cast<unsigned>(inputs.size()) + 1));
  }
  return inputs;
}

// Whether operands of the row may be faults. faultless() makes operands without faults: 1, 2, ... for a map, indices of 0.
bool can_fault(const Op& row, const Graph& graph) {
  if (row.type == &types::indexed) return true;
  return !row.fault.what.empty() && is_integer(graph.type(graph.inputs.back().value).dtype);
}
std::vector<HostTensor> faultless(const Op& row, const Graph& graph) {
  std::vector<HostTensor> inputs = inputs_for(graph, small_integers);
  for (size_t k = 0; k < inputs.size(); ++k)
    for (int64_t i = 0; i < inputs[k].count(); ++i)
      if (row.type != &types::indexed || k == 1)
        inputs[k].set_number(i, row.type == &types::indexed ? 0 : static_cast<double>(k) + 1);
  return inputs;
}

std::string label(const Op& row, const Sample& sample, DType dtype) {
  std::string text = std::string(row.name) + "(";
  for (const std::string& shape : sample.shapes) text += std::string(name(dtype)) + "[" + shape + "] ";
  return text + ")";
}

// Calls f(row, sample, dtype, graph) for every row, sample and dtype that the row takes.
template <class F>
void for_each_sample(F f) {
  for (OpId id = 0; id < ops::built_in_count; ++id) {
    const Op& row = op(id);
    if (id == ops::input) continue;
    for (const Sample& sample : samples_of(row))
      for (int i = 0; i < kDTypeCount; ++i) {
        auto graph = sample_graph(row, sample, dtype_at(i));
        if (!graph.ok()) continue;
        SCOPED_TRACE(label(row, sample, dtype_at(i)));
        f(row, sample, dtype_at(i), *graph);
      }
  }
}

TEST(Table, EveryRowHasWhatItsKindOwes) {
  std::set<std::string_view> names;
  for (int id = 0; id < op_count(); ++id) {
    const Op& row = op(static_cast<OpId>(id));
    const Status status = check_row(row);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands twice";
    EXPECT_EQ(find_op(row.name), static_cast<OpId>(id));
    if (!row.combine.empty()) {
      auto combine = find_op(row.combine);
      ASSERT_TRUE(combine) << row.name << " folds with " << row.combine;
      EXPECT_EQ(op(*combine).kind, Kind::map);
      EXPECT_EQ(op(*combine).arity, 2);
    }
    EXPECT_LT(row.low, row.high) << row.name;
  }
  EXPECT_EQ(op(ops::add).name, "add");
  EXPECT_EQ(op(ops::attention).name, "attention");
  EXPECT_FALSE(find_op("no_such_op"));
}

TEST(Table, EveryRowHasSamplesAndTakesSomeDType) {
  std::set<std::string_view> taken;
  for_each_sample([&](const Op& row, const Sample& sample, DType, const Graph& graph) {
    taken.insert(row.name);
    if (sample.result != "?") {
      EXPECT_EQ(graph.dims->print(graph.type(graph.outputs[0].value).shape), sample.result);
    }
  });
  for (OpId id = 0; id < ops::built_in_count; ++id)
    EXPECT_TRUE(id == ops::input || taken.contains(op(id).name))
        << op(id).name << " has no sample: add some for its shape rule to tests/support/op_samples.h";
}

// Every sample infers for at least one dtype; otherwise it would test nothing.
TEST(Table, EverySampleInfers) {
  for (OpId id = 0; id < ops::built_in_count; ++id)
    for (const Sample& sample : samples_of(op(id))) {
      std::string why;
      bool fits = false;
      for (int i = 0; i < kDTypeCount && !fits; ++i) {
        auto graph = sample_graph(op(id), sample, dtype_at(i));
        fits = graph.ok();
        why = graph.status().message();
      }
      EXPECT_TRUE(fits) << label(op(id), sample, DType::u8) << ": " << why;
    }
}

TEST(Table, EverySamplePrintsAndParsesBack) {
  for_each_sample([&](const Op& row, const Sample&, DType, const Graph& graph) {
    const std::string text = print(graph);
    const auto again = parse_graph(text);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    EXPECT_EQ(print(*again), text);
    const Node &before = graph.node(graph.outputs[0].value), &after = again->node(again->outputs[0].value);
    EXPECT_EQ(op(after.op).name, row.name);
    ASSERT_EQ(after.attrs.size(), before.attrs.size());
    for (size_t i = 0; i < before.attrs.size(); ++i)
      EXPECT_EQ(print_attr(*again->dims, row.attr_specs[i].kind, after.attrs[i]),
                print_attr(*graph.dims, row.attr_specs[i].kind, before.attrs[i]));
  });
}

TEST(Table, BodiesMakeTheRowsOwnType) {
  int bodies = 0;
  for_each_sample([&](const Op& row, const Sample&, DType, Graph& graph) {
    const Node node = graph.node(graph.outputs[0].value);
    if (!row.has_body(graph, node)) return;
    Builder b(graph);
    const ValueId result = row.body(b, node);
    EXPECT_EQ(graph.print_type(graph.type(result)), graph.print_type(node.type));
    EXPECT_TRUE(graph.type(result) == node.type);
    ++bodies;
  });
  EXPECT_GT(bodies, 500);
}

TEST(Table, EveryRowEvaluates) {
  for_each_sample([&](const Op& row, const Sample& sample, DType, const Graph& graph) {
    const auto outputs =
        evaluate(graph, can_fault(row, graph) ? faultless(row, graph) : inputs_for(graph, small_integers));
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    const HostTensor& y = (*outputs)[0];
    EXPECT_EQ(y.dtype, graph.type(graph.outputs[0].value).dtype);
    EXPECT_EQ(y.rank(), graph.type(graph.outputs[0].value).rank()) << row.name << sample.result;
  });
}

// Kernels run every row alone, by its body if it has one, except for opaque rows and the bits of a 16-bit float. So no program needs
// the evaluator.
TEST(Table, KernelsCoverEveryRowAlone) {
  int covered = 0;
  for_each_sample([&](const Op&, const Sample&, DType, const Graph& graph) {
    const Graph body = expand(graph, [](const Graph&, ValueId) { return false; });
    const Uses uses(body);
    for (ValueId v = 0; v < body.nodes.size(); ++v) {
      const Kind kind = op(body.node(v).op).kind;
      if (kind == Kind::input || kind == Kind::opaque) continue;
      if (Status loops = jit::has_loops(body, v); !loops.ok()) {
        EXPECT_EQ(op(body.node(v).op).name, "bitcast") << loops.message();
        continue;
      }
      const Status status = jit::covers(body, uses, std::span(&v, 1));
      EXPECT_TRUE(status.ok()) << status.message() << "\n" << print(body);
      ++covered;
    }
  });
  EXPECT_GT(covered, 5000);
}

// Each result of a row that picks is one of its operands, except for the sign. The first operand of where does not count.
TEST(Table, RowsThatPickReturnAnOperand) {
  int rows = 0;
  for (OpId id = 0; id < op_count(); ++id) {
    const Op& row = op(id);
    if (!row.picks) continue;
    ASSERT_TRUE(row.eval) << row.name;
    ++rows;
    std::mt19937 random(id);
    std::uniform_real_distribution<double> number(-8, 8);
    for (int i = 0; i < 1000; ++i) {
      std::vector<double> operands;
      for (int k = 0; k < row.arity; ++k) operands.push_back(number(random));
      if (row.type == &types::where) operands[0] = i % 2;
      const double result = std::fabs(row.eval(operands.data()));
      EXPECT_TRUE(std::ranges::any_of(operands, [&](double x) { return std::fabs(x) == result; }))
          << row.name;
    }
  }
  EXPECT_GE(rows, 5);
}

// Makes the first or the last element a fault. The error has the sentence of the row, unless the result is empty.
TEST(Table, FaultsAreInvalid) {
  std::set<std::string_view> seen;
  for_each_sample([&](const Op& row, const Sample&, DType, const Graph& graph) {
    if (!can_fault(row, graph)) return;
    const bool index = row.type == &types::indexed;
    const std::vector<HostTensor> right = faultless(row, graph);
    const auto y = evaluate(graph, right);
    ASSERT_TRUE(y.ok()) << y.status().message();
    const size_t k = index ? 1 : right.size() - 1;
    for (const bool last : {false, true}) {
      std::vector<HostTensor> wrong = right;
      if (wrong[k].count() == 0) continue;
      wrong[k].set_number(last ? wrong[k].count() - 1 : 0, index ? 1000 : 0);
      const Status status = evaluate(graph, wrong).status();
      if ((*y)[0].count() == 0) {
        EXPECT_TRUE(status.ok()) << status.message();
        continue;
      }
      EXPECT_EQ(status.code(), Code::invalid);
      const std::string what(index ? op(ops::index_in).fault.what : row.fault.what);
      EXPECT_TRUE(status.message().ends_with(": " + what)) << status.message();
      seen.insert(row.name);
    }
  });
  for (OpId id = 0; id < ops::built_in_count; ++id)
    if (!op(id).fault.what.empty() || op(id).type == &types::indexed) {
      EXPECT_TRUE(seen.contains(op(id).name)) << op(id).name;
    }
}

// If a row has both a loop of the evaluator and a body, they agree, bit for bit on small integers.
TEST(Table, DirectEvaluationEqualsTheBody) {
  int compared = 0;
  for_each_sample([&](const Op& row, const Sample&, DType, const Graph& graph) {
    if (row.kind != Kind::contract && row.kind != Kind::composite) return;
    const std::vector<HostTensor> inputs = inputs_for(graph, small_integers);
    const auto direct = evaluate(graph, inputs), by_body = evaluate(graph, inputs, {.by_body = true});
    ASSERT_TRUE(direct.ok()) << direct.status().message();
    ASSERT_TRUE(by_body.ok()) << by_body.status().message();
    EXPECT_EQ((*direct)[0].shape, (*by_body)[0].shape);
    if (row.kind == Kind::contract || row.name == "linear") {
      EXPECT_EQ((*direct)[0].bytes, (*by_body)[0].bytes);
      ++compared;
    }
  });
  EXPECT_GT(compared, 100);
}

HostTensor normal_numbers(DType dtype, std::vector<int64_t> shape, unsigned seed) {
  HostTensor out(dtype, std::move(shape));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < out.count(); ++i) out.set_number(i, std::fabs(normal(random)) + 0.25);
  return out;
}

HostTensor converted(const HostTensor& from, DType to) {
  HostTensor out(to, from.shape);
  for (int64_t i = 0; i < out.count(); ++i) out.set(i, convert_element(from.get(i), from.dtype, to));
  return out;
}

// Bodies compute 16-bit floats in f32 and round at the end, so the result is the rounded f64 result, except for errors of the f32
// arithmetic. linear and attention contain a matmul that rounds.
TEST(Table, BodiesRoundSixteenBitFloatsOnce) {
  int compared = 0;
  for_each_sample([&](const Op& row, const Sample& sample, DType dtype, const Graph& graph) {
    if (!row.body || row.kind == Kind::opaque || (dtype != DType::f16 && dtype != DType::bf16)) return;
    const auto in_f64 = sample_graph(row, sample, DType::f64);
    ASSERT_TRUE(in_f64.ok());
    std::vector<HostTensor> inputs = inputs_for(graph, normal_numbers), exact_inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      exact_inputs.push_back(converted(inputs[i], in_f64->type(in_f64->inputs[i].value).dtype));
    const auto rounded = evaluate(graph, inputs, {.by_body = true}),
               exact = evaluate(*in_f64, exact_inputs, {.by_body = true});
    ASSERT_TRUE(rounded.ok() && exact.ok());
    const HostTensor &y = (*rounded)[0], &z = (*exact)[0];
    const double half_ulp = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < y.count(); ++i) {
      ++compared;
      if (std::isnan(z.number(i)) ? std::isnan(y.number(i)) : y.number(i) == z.number(i)) continue;
      const double slack = (row.name == "linear" ? 2.1 : 1.02) * half_ulp;
      ASSERT_NEAR(y.number(i), z.number(i), slack * std::fabs(z.number(i)) + 1e-6) << "element " << i;
    }
  });
  EXPECT_GT(compared, 3000);
}

// ---- registration ----

Op doubled() {
  Op row;
  row.name = "doubled";
  row.kind = Kind::composite;
  row.shape = shapes::same;
  row.type = types::number;
  row.body = [](Builder& b, const Node& node) { return b(ops::add, {node.inputs[0], node.inputs[0]}); };
  row.doc = "x + x";
  return row;
}

TEST(Register, RefusesIncompleteRows) {
  const std::pair<const char*, void (*)(Op&)> cases[] = {
      {"not a name", [](Op& row) { row.name = "two words"; }},
      {"the name is taken", [](Op& row) { row.name = "softmax"; }},
      {"shape rule", [](Op& row) { row.shape = nullptr; }},
      {"type rule", [](Op& row) { row.type = nullptr; }},
      {"sentence", [](Op& row) { row.doc = {}; }},
      {"composite row needs a body", [](Op& row) { row.body = nullptr; }},
      {"no scalar columns", [](Op& row) { row.eval = [](const double* x) { return x[0]; }; }},
      {"no scalar columns", [](Op& row) { row.llvm.f = "fneg $T $0"; }},
      {"eval", [](Op& row) { row.kind = Kind::map, row.body = nullptr; }},
      {"all of its fault column",
       [](Op& row) { row.kind = Kind::map, row.body = nullptr, row.fault.what = "it is one"; }},
      {"combine", [](Op& row) { row.kind = Kind::reduce; }},
      {"identity", [](Op& row) { row.kind = Kind::reduce, row.combine = "add"; }},
      {"no row: plus", [](Op& row) { row.kind = Kind::reduce, row.combine = "plus", row.identity = lowest; }},
      {"contract row needs a body", [](Op& row) { row.kind = Kind::contract, row.body = nullptr; }},
      {"arity 0", [](Op& row) { row.kind = Kind::input; }},
      {"arity", [](Op& row) { row.arity = -2; }},
      {"optional", [](Op& row) { row.optional = 2; }},
      {"name:kind", [](Op& row) { row.attrs = "axis"; }},
      {"kind is none of", [](Op& row) { row.attrs = "axis:integer"; }},
      {"default", [](Op& row) { row.attrs = "axis:int=one"; }},
      {"default", [](Op& row) { row.attrs = "axes:ints=[1,]x"; }},
      {"twice", [](Op& row) { row.attrs = "axis:int axis:int"; }},
  };
  const int before = op_count();
  for (const auto& [message, spoil] : cases) {
    Op row = doubled();
    spoil(row);
    auto id = register_op(std::move(row));
    ASSERT_FALSE(id.ok()) << message;
    EXPECT_EQ(id.status().code(), Code::invalid);
    EXPECT_NE(id.status().message().find(message), std::string::npos) << id.status().message();
  }
  EXPECT_EQ(op_count(), before);
}

TEST(Register, AddsARowThatInfersAndEvaluates) {
  std::string its_name = "doubled_scaled",
              its_attrs = "scale:float=0.5 axes:ints=[1,-2] word:text=abc flag:bool=true";
  Op row = doubled();
  row.name = its_name;
  row.attrs = its_attrs;
  row.body = [](Builder& b, const Node& node) {
    const ValueId x = node.inputs[0];
    return b(ops::mul, {b(ops::add, {x, x}), b.scalar(attr_as<double>(node, "scale"), b.type(x).dtype)});
  };
  auto id = register_op(row);
  ASSERT_TRUE(id.ok()) << id.status().message();
  its_name = its_attrs = "gone";  // the table has its own copies
  EXPECT_EQ(op(*id).name, "doubled_scaled");
  EXPECT_EQ(find_op("doubled_scaled"), *id);
  EXPECT_EQ(std::get<Dims>(*op(*id).attr_specs[1].fallback), (Dims{1, -2}));
  EXPECT_EQ(std::get<std::string>(*op(*id).attr_specs[2].fallback), "abc");
  Graph graph;
  Builder b(graph);
  const ValueId x = *b.try_input("x", {DType::f32, {Dim(3)}});
  graph.outputs.push_back({b(*id, {x}, {{"scale", 2.0}}), std::nullopt});
  const auto y = evaluate(graph, std::vector<HostTensor>{small_integers(DType::f32, {3}, 1)});
  ASSERT_TRUE(y.ok()) << y.status().message();
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*y)[0].number(i), 4 * small_integers(DType::f32, {3}, 1).number(i));
}

TEST(Register, WhileOthersRead) {
  const Op* add = &op(ops::add);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        const std::string row_name = "row_" + std::to_string(t) + "_" + std::to_string(i);
        Op row = doubled();
        row.name = row_name;
        auto id = register_op(std::move(row));
        ASSERT_TRUE(id.ok()) << id.status().message();
        EXPECT_EQ(op(*id).name, row_name);
        EXPECT_EQ(find_op(row_name), *id);
        for (int other = 0; other < op_count(); other += 17)
          EXPECT_FALSE(op(static_cast<OpId>(other)).name.empty());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(&op(ops::add), add);
}

TEST(Identity, IsExactInEveryDType) {
  EXPECT_EQ(identity_of(op(ops::max), DType::i64).i, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(identity_of(op(ops::min), DType::i64).i, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(identity_of(op(ops::min), DType::i32).i, std::numeric_limits<int32_t>::max());
  EXPECT_EQ(identity_of(op(ops::max), DType::u8).i, 0);
  EXPECT_EQ(identity_of(op(ops::min), DType::u8).i, 255);
  EXPECT_EQ(identity_of(op(ops::min), DType::b8).i, 1);
  EXPECT_EQ(identity_of(op(ops::max), DType::f16).d, -HUGE_VAL);
  EXPECT_EQ(identity_of(op(ops::prod), DType::i8).i, 1);
}

}  // namespace
}  // namespace tenon
