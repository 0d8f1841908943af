// BackendPlacement: decides by bids which back end runs a node. Programs build what it decides; the query
// builds nothing. Immutable; any thread. Tested by tests/unit/runtime/run_test.cc and tests/abi/capi*.c.
#pragma once

#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/passes/placement.h"

namespace tenon {

// The back ends of a device type that programs use unasked, in order of preference.
std::vector<Backend*> backends_of(int device_type);

// Whether a node that no back end takes stays with the host even though it has a body. On a GPU, a product as
// loops over memory would be far slower than the host's, and so would attention that stores its scores
// (attribute `whole`). Pooling would not.
bool host_keeps(const Node& node, int device_type);

class BackendPlacement final : public Placement {
 public:
  BackendPlacement(std::vector<Backend*> backends, int device_type);

  // The back end with the lowest bid; the earlier one wins a tie. why: the winner's sentence, or those of all
  // that declined.
  Backend* best(const Graph& graph, ValueId node, std::string* why = nullptr) const;
  const std::vector<Backend*>& backends() const { return backends_; }

  std::string keeps(const Graph& graph, ValueId node) const override;
  std::string runs(const Graph& graph, ValueId node) const override;
  bool joins(const Graph& graph, const Uses& uses, const std::string& backend,
             std::span<const ValueId> members, ValueId node, std::string* why) const override;
  bool reads(const Graph& graph, const std::string& backend, ValueId node, ValueId operand) const override;
  ValueId legalize(Builder& b, Node&& node, const Graph& graph, ValueId old) const override;
  bool finds_faults() const override { return device_type_ == DeviceId::kCpu; }
  std::string_view loops() const override { return loops_; }
  std::string_view last_resort() const override { return last_resort_; }

 private:
  const std::vector<Backend*> backends_;
  const int device_type_;
  std::string loops_, last_resort_;
};

}  // namespace tenon
