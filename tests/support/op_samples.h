// Sample nodes for every row of the op table, keyed by the row's shape rule. A new row with a known rule is tested as soon as it
// exists. A row with a new rule fails tests/unit/ops/table_test.cc until this file has samples for the rule.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "src/ir/builder.h"
#include "src/ops/rules/rules.h"

namespace tenon {

struct Sample {
  std::vector<std::string> shapes;  // shapes of the operands, "N,4"; "" is a scalar; N, M, K are symbols
  std::vector<NamedAttr> attrs;
  std::string result;  // the shape of the result; "?": not checked
};

namespace sample_help {

using Table = std::map<ShapeRule, std::vector<Sample>>;

inline NamedAttr text(const char* name, const char* value) { return {name, std::string(value)}; }
inline NamedAttr layout_last() { return text("layout", "channels_last"); }

inline Table make_table() {
  Table t;
  const NamedAttr f32{"dtype", DType::f32};
  auto data = std::make_shared<ConstantData>();
  static const float kNumbers[6] = {1, 2, 3, 4, 5, 6};
  data->bytes = kNumbers;
  data->size = sizeof(kNumbers);
  t[shapes::constant] = {{{}, {f32, {"shape", Dims{2, 3}}, {"data", data}}, "2,3"}};
  t[shapes::from_shape] = {{{}, {{"value", Scalar::of(1.5)}, {"shape", Dims{2, 0, 3}}, f32}, "2,0,3"},
                           {{}, {{"value", Scalar::of(int64_t{7})}, {"shape", Dims{}}, f32}, ""}};
  t[shapes::iota] = {{{}, {{"shape", Dims{2, 3}}, f32, {"axis", Dim(-1)}}, "2,3"},
                     {{}, {{"shape", Dims{}}, f32}, ""}};
  t[shapes::seeded] = {{{""}, {{"shape", Dims{2, 3}}}, "2,3"},
                       {{""}, {{"shape", Dims{}}}, ""},
                       {{""}, {{"shape", Dims{4, 0}}}, "4,0"}};
  t[shapes::scalar] = {{{}, {{"value", Dim(3)}}, ""}};
  const NamedAttr i64{"dtype", DType::i64};
  t[shapes::same] = {
      {{"2,3"}, {f32}, "2,3"}, {{""}, {i64}, ""}, {{"0,3"}, {i64}, "0,3"}, {{"N,2*M"}, {f32}, "N,2*M"}};
  t[shapes::gelu] = {{{"2,3"}, {}, "2,3"}, {{"N"}, {text("approximate", "tanh")}, "N"}};
  t[shapes::same_axis] = {{{"2,3"}, {{"axis", Dim(-1)}}, "2,3"},    {{"3,2"}, {{"axis", Dim(0)}}, "3,2"},
                          {{""}, {{"axis", Dim(0)}}, ""},           {{"2,0"}, {{"axis", Dim(1)}}, "2,0"},
                          {{"N,M,4"}, {{"axis", Dim(1)}}, "N,M,4"}, {{"5,1"}, {{"axis", Dim(1)}}, "5,1"}};
  t[shapes::broadcast] = {
      {{"2,3", "2,3", "2,3"}, {}, "2,3"}, {{"2,3", "", "3"}, {}, "2,3"},    {{"", "", ""}, {}, ""},
      {{"4,1,3", "5,1", "3"}, {}, "?"},   {{"0,3", "1,3", "3"}, {}, "0,3"}, {{"N,4", "4", "N,1"}, {}, "N,4"},
      {{"N,M", "M", ""}, {}, "N,M"}};
  t[shapes::reduce] = {{{"2,3,4"}, {{"axes", Dims{1}}}, "2,4"},
                       {{"2,3,4"}, {{"axes", Dims{-1, 0}}, {"keepdims", true}}, "1,3,1"},
                       {{"2,3"}, {{"axes", Dims{}}}, ""},
                       {{""}, {{"axes", Dims{}}}, ""},
                       {{""}, {{"axes", Dims{-1}}, {"keepdims", true}}, ""},
                       {{"2,0"}, {{"axes", Dims{1}}}, "2"},
                       {{"0,2"}, {{"axes", Dims{1}}}, "0"},
                       {{"N,M,3"}, {{"axes", Dims{0, 2}}}, "M"},
                       {{"N,2*M"}, {{"axes", Dims{1}}, {"keepdims", true}}, "N,1"}};
  t[shapes::reduce_axis] = {{{"2,5"}, {{"axis", Dim(1)}}, "2"},
                            {{"5,2"}, {{"axis", Dim(0)}, {"keepdims", true}}, "1,2"},
                            {{""}, {{"axis", Dim(0)}}, ""},
                            {{"0,3"}, {{"axis", Dim(1)}}, "0"},
                            {{"N,M"}, {{"axis", Dim(-2)}}, "M"}};
  t[shapes::reshape] = {{{"2,6"}, {{"shape", Dims{3, 4}}}, "3,4"},
                        {{"2,6"}, {{"shape", Dims{2, -1, 2}}}, "2,3,2"},
                        {{"1,1"}, {{"shape", Dims{}}}, ""},
                        {{"0,3"}, {{"shape", Dims{3, -1}}}, "3,0"},
                        {{"N,4,M"}, {{"shape", Dims{-1, 2}}}, "2*M*N,2"},
                        {{"N,8"}, {{"shape", Dims{-1}}}, "8*N"}};
  t[shapes::transpose] = {{{"2,3,4"}, {{"perm", Dims{2, 0, 1}}}, "4,2,3"},
                          {{""}, {{"perm", Dims{}}}, ""},
                          {{"0,3"}, {{"perm", Dims{-1, 0}}}, "3,0"},
                          {{"N,M"}, {{"perm", Dims{1, 0}}}, "M,N"}};
  t[shapes::expand] = {{{"3,1"}, {{"shape", Dims{2, 3, 4}}}, "2,3,4"},
                       {{""}, {{"shape", Dims{2, 2}}}, "2,2"},
                       {{"1,3"}, {{"shape", Dims{0, 3}}}, "0,3"},
                       {{"N,1"}, {{"shape", Dims{}}}, "N,M"}};
  t[shapes::slice] = {
      {{"2,7"}, {{"axis", Dim(1)}, {"start", Dim(1)}, {"end", Dim(7)}, {"step", Dim(2)}}, "2,3"},
      {{"7"}, {{"axis", Dim(-1)}, {"end", Dim(7)}, {"step", Dim(3)}}, "3"},
      {{"2,7"}, {{"axis", Dim(0)}, {"start", Dim(1)}, {"end", Dim(1)}}, "0,7"},
      {{"N,M"}, {{"axis", Dim(0)}, {"end", Dim(1)}}, "1,M"}};
  t[shapes::windows] = {
      {{"2,7"},
       {{"axes", Dims{1}}, {"sizes", Dims{3}}, {"strides", Dims{2}}, {"dilations", Dims{1}}},
       "2,3,3"},
      {{"9,8"},
       {{"axes", Dims{1, 0}}, {"sizes", Dims{3, 2}}, {"strides", Dims{1, 2}}, {"dilations", Dims{2, 3}}},
       "3,4,3,2"},
      {{"0,4"},
       {{"axes", Dims{1}}, {"sizes", Dims{4}}, {"strides", Dims{1}}, {"dilations", Dims{1}}},
       "0,1,4"},
      {{"N,M+3"},
       {{"axes", Dims{1}}, {"sizes", Dims{3}}, {"strides", Dims{1}}, {"dilations", Dims{1}}},
       "N,M+1,3"}};
  t[shapes::flip] = {{{"2,3"}, {{"axes", Dims{1}}}, "2,3"},
                     {{""}, {{"axes", Dims{}}}, ""},
                     {{"0,3"}, {{"axes", Dims{0, 1}}}, "0,3"},
                     {{"N,M"}, {{"axes", Dims{-1}}}, "N,M"}};
  t[shapes::concat] = {{{"2,3", "2,1", "2,0"}, {{"axis", Dim(1)}}, "2,4"},
                       {{"2,3"}, {{"axis", Dim(0)}}, "2,3"},
                       {{"N,4", "M,4"}, {{"axis", Dim(-2)}}, "M+N,4"}};
  t[shapes::pad] = {
      {{"2,3"}, {{"low", Dims{1, 0}}, {"high", Dims{0, 2}}, {"value", Scalar::of(int64_t{1})}}, "3,5"},
      {{"4,5"}, {{"low", Dims{-1, -2}}, {"high", Dims{-2, 3}}}, "1,6"},
      {{""}, {{"low", Dims{}}, {"high", Dims{}}}, ""},
      {{"0,2"}, {{"low", Dims{1, 0}}, {"high", Dims{1, 0}}}, "2,2"},
      {{"N,M"}, {{"low", Dims{0, 1}}, {"high", Dims{0, 1}}}, "N,M+2"}};
  t[shapes::gather] = {
      {{"5,3", "2,4"}, {{"axis", Dim(0)}}, "2,4,3"}, {{"2,5,3", "4"}, {{"axis", Dim(1)}}, "2,4,3"},
      {{"2,5", ""}, {{"axis", Dim(-1)}}, "2"},       {{"5,3", "0"}, {{"axis", Dim(0)}}, "0,3"},
      {{"", "2"}, {{"axis", Dim(0)}}, "2"},          {{"50,8", "N,M"}, {{"axis", Dim(0)}}, "N,M,8"}};
  t[shapes::take_along] = {{{"2,5", "2,3"}, {{"axis", Dim(1)}}, "2,3"},
                           {{"5,1", "2,3"}, {{"axis", Dim(0)}}, "2,3"},
                           {{"", ""}, {{"axis", Dim(0)}}, ""},
                           {{"N,M", "N,4"}, {{"axis", Dim(1)}}, "N,4"}};
  t[shapes::scatter] = {{{"2,5", "2,3", "2,3"}, {{"axis", Dim(1)}}, "2,5"},
                        {{"4,5", "2,7", "2,7"}, {{"axis", Dim(1)}, text("mode", "add")}, "4,5"},
                        {{"", "", ""}, {{"axis", Dim(0)}}, ""},
                        {{"N,M", "K,M", "K,M"}, {{"axis", Dim(0)}}, "N,M"}};
  t[shapes::index_put] = {{{"5,3", "2,4", "2,4,3"}, {{"axis", Dim(0)}}, "5,3"},
                          {{"2,5,3", "4", "2,4,3"}, {{"axis", Dim(1)}, text("mode", "add")}, "2,5,3"},
                          {{"5", "", ""}, {{"axis", Dim(0)}}, "5"},
                          {{"N,8", "M", "M,8"}, {{"axis", Dim(0)}}, "N,8"}};
  t[shapes::sort_order] = {
      {{"2,5"}, {{"axis", Dim(1)}, {"end", Dim(5)}}, "2,5"},
      {{"5,2"}, {{"axis", Dim(-2)}, {"start", Dim(1)}, {"end", Dim(3)}, {"descending", true}}, "2,2"},
      {{"2,0"}, {{"axis", Dim(1)}, {"end", Dim(0)}}, "2,0"},
      {{"2,9"}, {{"axis", Dim(1)}, {"end", Dim(4)}, {"select", true}}, "2,4"},
      {{"N,M,4"}, {{"axis", Dim(2)}, {"end", Dim(3)}}, "N,M,3"}};
  t[shapes::search] = {{{"5", "2,3"}, {}, "2,3"},
                       {{"2,5", "2,3"}, {{"right", true}}, "2,3"},
                       {{"5", ""}, {}, ""},
                       {{"0", "3"}, {}, "3"},
                       {{"N,M", "N,4"}, {}, "N,4"}};
  auto mode = [](const char* name, std::vector<NamedAttr> more = {}) {
    more.push_back(text("mode", name));
    return more;
  };
  t[shapes::recurrent] = {
      {{"3,2,16", "2,4", "16,4", "16", "2,4", "4,4"}, mode("lstm"), "3,2,4"},
      {{"3,2,16", "2,4", "16,4", "16", "2,4", "4,4"},
       mode("lstm", {{"cell", true}, {"reverse", true}}),
       "32"},
      {{"3,2,15", "2,5", "15,5", "15"}, mode("gru"), "3,2,5"},
      {{"3,2,5", "2,5", "5,5", "5"}, mode("tanh", {{"reverse", true}}), "3,2,5"},
      {{"0,2,5", "2,5", "5,5", "5"}, mode("relu"), "0,2,5"},
      {{"3,0,16", "0,4", "16,4", "16", "0,4"}, mode("lstm", {{"cell", true}}), "0"},
      {{"N,M,15", "M,5", "15,5", "15"}, mode("gru"), "N,M,5"},
      {{"N,M,16", "M,4", "16,4", "16", "M,4"}, mode("lstm", {{"cell", true}}), "4*M+4*M*N"}};
  t[shapes::recurrent_gradient] = {
      {{"3,2,4", "3,2,4", "2,4", "16,4", "3,2,16", "3,2,16", "2,4", "2,4"}, mode("lstm"), "112"},
      {{"3,2,4", "3,2,4", "2,4", "16,4", "3,2,16", "3,2,16", "2,4"},
       mode("lstm", {{"reverse", true}}),
       "112"},
      {{"3,2,5", "3,2,5", "2,5", "15,5", "3,2,15", "3,2,15"}, mode("gru"), "190"},
      {{"3,2,5", "3,2,5", "2,5", "5,5"}, mode("tanh"), "40"},
      {{"0,2,5", "0,2,5", "2,5", "5,5"}, mode("relu", {{"reverse", true}}), "10"},
      {{"3,0,5", "3,0,5", "0,5", "5,5"}, mode("tanh"), "0"},
      {{"N,M,5", "N,M,5", "M,5", "5,5"}, mode("relu"), "5*M+5*M*N"}};
  t[shapes::matmul] = {{{"2,3", "3,4"}, {}, "2,4"},       {{"3", "3"}, {}, ""},
                       {{"2,3", "3"}, {}, "2"},           {{"3", "5,3,2"}, {}, "5,2"},
                       {{"4,2,3", "3"}, {}, "4,2"},       {{"5,1,2,3", "4,3,2"}, {}, "5,4,2,2"},
                       {{"2,0", "0,3"}, {}, "2,3"},       {{"0,2,3", "3,4"}, {}, "0,2,4"},
                       {{"N,M,8", "N,8,M"}, {}, "N,M,M"}, {{"N,1,K", "K,M"}, {}, "N,1,M"}};
  t[shapes::grouped_matmul] = {{{"5,3", "2", "2,3,4"}, {}, "5,4"},
                               {{"0,3", "1", "1,3,4"}, {}, "0,4"},
                               {{"4,0", "3", "3,0,2"}, {}, "4,2"},
                               {{"N,3", "K", "K,3,M"}, {}, "N,M"}};
  t[shapes::grouped_outer] = {{{"5,3", "2", "5,4"}, {}, "2,3,4"},
                              {{"0,3", "1", "0,4"}, {}, "1,3,4"},
                              {{"4,0", "3", "4,2"}, {}, "3,0,2"},
                              {{"N,3", "K", "N,M"}, {}, "K,3,M"}};
  t[shapes::linear] = {{{"2,3", "4,3", "4"}, {}, "2,4"},
                       {{"3", "4,3", "4"}, {}, "4"},
                       {{"2,0,3", "4,3", "4"}, {}, "2,0,4"},
                       {{"N,M,3", "4,3", "4"}, {}, "N,M,4"}};
  const NamedAttr eps{"eps", 1e-5};
  t[shapes::norm_last] = {{{"2,5", "5", "5"}, {{"axes_count", Dim(1)}, eps}, "2,5"},
                          {{"2,3,4", "3,4", "3,4"}, {{"axes_count", Dim(2)}, eps}, "2,3,4"},
                          {{"0,5", "5", "5"}, {{"axes_count", Dim(1)}, eps}, "0,5"},
                          {{"N,M", "M", "M"}, {{"axes_count", Dim(1)}, eps}, "N,M"}};
  t[shapes::norm_channels] = {{{"2,4,3", "4", "4", "4", "4"}, {{"groups", Dim(2)}, eps}, "2,4,3"},
                              {{"3,4", "4", "4", "4", "4"}, {{"groups", Dim(4)}, eps}, "3,4"},
                              {{"2,3,2,4", "4", "4", "4", "4"},
                               {{"groups", Dim(2)}, eps, layout_last(), {"axis", Dim(-1)}},
                               "2,3,2,4"},
                              {{"N,6,M", "6", "6", "6", "6"}, {{"groups", Dim(3)}, eps}, "N,6,M"}};
  t[shapes::instance_norm] = {{{"2,4,3", "4", "4"}, {eps}, "2,4,3"},
                              {{"N,4,M,M", "4", "4"}, {eps}, "N,4,M,M"}};
  const NamedAttr scale{"scale", 0.5}, over_root{"over_root", true}, dropout{"dropout", 0.25};
  t[shapes::attention] = {
      {{"2,4,3,8", "2,4,5,8", "2,4,5,6", "3,5"}, {scale}, "2,4,3,6"},
      {{"2,4,3,8", "2,2,3,8", "2,2,3,8", "2,4,3,3"}, {scale, {"causal", true}}, "2,4,3,8"},
      {{"1,2,3,4", "1,1,0,4", "1,1,0,2", "3,0"}, {scale}, "1,2,3,2"},
      {{"N,4,M,8", "N,2,K,8", "N,2,K,8", "N,1,M,K"}, {scale, {"causal", true}}, "N,4,M,8"},
      {{"2,4,3,8", "2,4,5,8", "2,4,5,6"}, {scale, over_root}, "2,4,3,6"},
      {{"2,4,M,K", "2,2,M,K", "2,2,M,6"}, {scale, over_root}, "2,4,M,6"},
      {{"2,4,3,8", "2,2,5,8", "2,2,5,6", "2,4,3,5"}, {scale, dropout}, "2,4,3,6"},
      {{"N,4,M,8", "N,4,K,8", "N,4,K,8", "M,K", "N,4,M,K"}, {scale, dropout}, "N,4,M,8"}};
  t[shapes::attention_gradient] = {
      {{"2,3,4,8", "2,5,4,8", "2,5,4,6", "2,3,4,6", "3,5"}, {scale}, "752"},
      {{"2,3,4,8", "2,3,2,8", "2,3,2,8", "2,3,4,8", "2,4,3,3"}, {scale, {"causal", true}}, "384"},
      {{"1,3,2,4", "1,0,1,4", "1,0,1,2", "1,3,2,2", "3,0"}, {scale}, "24"},
      {{"N,M,4,8", "N,K,2,8", "N,K,2,8", "N,M,4,8", "N,1,M,K"}, {scale, {"causal", true}}, "32*K*N+32*M*N"},
      {{"2,3,4,K", "2,5,2,K", "2,5,2,6", "2,3,4,6"}, {scale, over_root}, "44*K+120"},
      {{"2,3,4,8", "2,5,2,8", "2,5,2,6", "2,3,4,6", "2,4,3,5"}, {scale, dropout}, "472"},
      {{"N,M,4,8", "N,K,4,8", "N,K,4,8", "N,M,4,8", "M,K", "N,4,M,K"}, {scale, dropout}, "64*K*N+32*M*N"}};
  auto conv = [](Dims strides, Dims low, Dims high, Dims dilations, std::vector<NamedAttr> more = {}) {
    more.push_back({"strides", strides});
    more.push_back({"padding", low});
    more.push_back({"padding_high", high});
    more.push_back({"dilations", dilations});
    return more;
  };
  const NamedAttr turned{"transposed", true};
  auto groups = [](int64_t n) { return NamedAttr{"groups", Dim(n)}; };
  t[shapes::convolution] = {
      {{"2,4,7", "6,4,3", "6"}, conv({2}, {1}, {1}, {1}), "2,6,4"},
      {{"1,4,6,5", "6,2,3,2", "6"}, conv({1, 2}, {1, 0}, {2, 1}, {2, 1}, {groups(2)}), "1,6,5,3"},
      {{"1,5,6,4", "8,1,3,3", "8"},
       conv({1, 1}, {1, 1}, {1, 1}, {1, 1}, {groups(4), layout_last()}),
       "1,5,6,8"},
      {{"1,2,3,4,3", "2,2,2,2,2", "2"}, conv({1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}), "1,2,2,3,2"},
      {{"2,4,5", "4,3,3", "3"}, conv({2}, {1}, {1}, {1}, {turned, {"output_padding", Dims{1}}}), "2,3,10"},
      {{"1,3,4,4", "4,2,3,2", "4"},
       conv({2, 1}, {1, 0}, {0, 1}, {1, 2}, {turned, groups(2), layout_last()}),
       "1,6,5,4"},
      {{"1,4,3,4", "4,2,3,2", "4"}, conv({2, 1}, {1, 0}, {0, 1}, {1, 2}, {turned, groups(2)}), "1,4,6,5"},
      {{"0,4,7", "6,4,3", "6"}, conv({1}, {0}, {0}, {1}), "0,6,5"},
      {{"N,4,M,M", "8,4,3,3", "8"}, conv({2, 2}, {1, 1}, {1, 1}, {1, 1}), "N,8,(M+1)//2,(M+1)//2"},
      {{"N,4,M", "4,2,4", "2"}, conv({2}, {1}, {1}, {1}, {turned}), "N,2,2*M"}};
  auto weight = [&](Dims kernel, std::vector<NamedAttr> more) {
    more.push_back({"kernel", kernel});
    return more;
  };
  t[shapes::convolution_weight_gradient] = {
      {{"2,4,7", "2,6,4"}, weight({3}, conv({2}, {1}, {1}, {1})), "6,4,3"},
      {{"2,4,6,5", "2,6,5,3"}, weight({3, 2}, conv({1, 2}, {1, 0}, {2, 1}, {2, 1}, {groups(2)})), "6,2,3,2"},
      {{"1,5,6,4", "1,5,6,8"},
       weight({3, 3}, conv({1, 1}, {1, 1}, {1, 1}, {1, 1}, {groups(4), layout_last()})),
       "8,1,3,3"},
      {{"1,2,3,4,3", "1,2,2,2,2"},
       weight({2, 2, 2}, conv({1, 2, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1})),
       "2,2,2,2,2"},
      {{"0,4,7", "0,6,5"}, weight({3}, conv({1}, {0}, {0}, {1})), "6,4,3"},
      {{"N,4,M,M", "N,8,(M+1)//2,(M+1)//2"},
       weight({3, 3}, conv({2, 2}, {1, 1}, {1, 1}, {1, 1})),
       "8,4,3,3"}};
  auto pool = [](Dims kernel, Dims strides, Dims low, Dims high, std::vector<NamedAttr> more = {}) {
    more.push_back({"kernel", kernel});
    more.push_back({"strides", strides});
    more.push_back({"padding", low});
    more.push_back({"padding_high", high});
    return more;
  };
  const NamedAttr uncounted{"count_include_pad", false};
  t[shapes::pool] = {{{"2,3,7"}, pool({3}, {2}, {1}, {1}), "2,3,4"},
                     {{"1,2,6,5"}, pool({2, 3}, {2, 2}, {1, 1}, {1, 2}, {uncounted}), "1,2,4,3"},
                     {{"1,2,6,5"}, pool({3, 3}, {2, 2}, {0, 0}, {1, 0}, {{"divisor", Dim(5)}}), "1,2,3,2"},
                     {{"1,6,5,2"}, pool({2, 2}, {2, 2}, {0, 0}, {0, 1}, {layout_last()}), "1,3,3,2"},
                     {{"1,2,4,4,4"}, pool({2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}), "1,2,3,3,3"},
                     {{"2,3,9"}, pool({3}, {1}, {1}, {1}, {{"dilations", Dims{2}}}), "?"},
                     {{"N,3,M,M"}, pool({2, 2}, {2, 2}, {0, 0}, {1, 1}), "N,3,(M+1)//2,(M+1)//2"}};
  t[shapes::adaptive_pool] = {{{"2,3,8,6"}, {{"output", Dims{1, 1}}}, "2,3,1,1"},
                              {{"1,2,8,6"}, {{"output", Dims{2, 3}}}, "1,2,2,3"},
                              {{"1,2,7,5"}, {{"output", Dims{3, 4}}}, "1,2,3,4"},
                              {{"1,5,2"}, {{"output", Dims{7}}, layout_last()}, "1,7,2"},
                              {{"N,3,M,2*M"}, {{"output", Dims{1, 2}}}, "N,3,1,2"}};
  return t;
}

// Whether the last operand of attention says which weights dropout keeps.
inline bool has_dropout(const Sample& sample) {
  return std::any_of(sample.attrs.begin(), sample.attrs.end(),
                     [](const NamedAttr& attr) { return attr.name == "dropout"; });
}

inline bool has_attr(const Op& row, std::string_view name) {
  return std::any_of(row.attr_specs.begin(), row.attr_specs.end(),
                     [&](const AttrSpec& spec) { return spec.name == name; });
}

}  // namespace sample_help

// The samples for a row: those of its rule, cut to its arity, with and without optional operands, without attributes that the row
// lacks.
inline std::vector<Sample> samples_of(const Op& row) {
  static const sample_help::Table table = sample_help::make_table();
  auto it = table.find(row.shape);
  if (it == table.end()) return {};
  std::vector<Sample> out;
  for (Sample sample : it->second) {
    std::erase_if(sample.attrs,
                  [&](const NamedAttr& attr) { return !sample_help::has_attr(row, attr.name); });
    if (row.arity < 0) {
      out.push_back(sample);
      continue;
    }
    for (int arity = row.arity - row.optional; arity <= row.arity; ++arity) {
      Sample cut = sample;
      if (static_cast<int>(cut.shapes.size()) < arity) continue;
      cut.shapes.resize(arity);
      if (row.shape == shapes::broadcast && arity < row.arity) continue;
      // Attributes say which operands these rows have.
      const bool whole = sample_help::has_dropout(sample) || row.shape == shapes::recurrent_gradient;
      if (whole && cut.shapes.size() < sample.shapes.size()) continue;
      out.push_back(std::move(cut));
    }
  }
  return out;
}

// A graph with one node of the row on inputs of these shapes and dtype (conditions are bool, indices i64).
// invalid: the row does not take the dtype.
inline Result<Graph> sample_graph(const Op& row, const Sample& sample, DType dtype) {
  Graph graph;
  Builder b(graph);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < sample.shapes.size(); ++i) {
    TensorType type{dtype, {}};
    if (row.type == types::where && i == 0) type.dtype = DType::b8;
    if (sample_help::has_dropout(sample) && i + 1 == sample.shapes.size()) type.dtype = DType::b8;
    if ((row.type == types::indexed || row.type == types::grouped) && i == 1) type.dtype = DType::i64;
    std::string_view rest = sample.shapes[i];
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      TENON_ASSIGN(Dim size, b.dims().parse(rest.substr(0, comma)));
      type.shape.push_back(size);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    TENON_ASSIGN(ValueId v, b.try_input("x" + std::to_string(i), std::move(type)));
    operands.push_back(v);
  }
  std::vector<NamedAttr> attrs = sample.attrs;
  for (NamedAttr& attr : attrs)  // the symbolic sample of expand: [N,M] with the symbols of the graph
    if (row.shape == shapes::expand && sample.result == "N,M")
      attr.value = Dims{b.dims().symbol("N"), b.dims().symbol("M")};
  TENON_ASSIGN(ValueId y, b.try_add(*find_op(row.name), operands, attrs, "y"));
  graph.outputs.push_back({y, std::nullopt});
  return graph;
}

}  // namespace tenon
