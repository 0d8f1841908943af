// The table of the operators that Tenon translates, made from the rows of src/mxnet/ops/*.cc. Tested by
// tests/mxnet/registry_test.py, which compares it with MXNet's registry.
#pragma once

#include <span>

#include "src/mxnet/row.h"

namespace tenon::mxnet {

// Null if Tenon does not translate the operator. The rows live as long as the process.
const Row* find_row(std::string_view op);
const std::vector<AttrColumn>& columns_of(const Row& row);
std::vector<const Row*> all_rows();

std::vector<std::string> operand_names(const Row& row);    // without the marks ? and *
int operand_index(const Row& row, std::string_view name);  // -1: none
// How many operands the row takes, at least and at most.
std::pair<size_t, size_t> operand_range(const Row& row);

// One array per file of src/mxnet/ops/.
std::span<const Row> elementwise_rows();
std::span<const Row> scalar_rows();
std::span<const Row> neural_rows();
std::span<const Row> norm_rows();
std::span<const Row> window_rows();
std::span<const Row> shape_rows();
std::span<const Row> slice_rows();
std::span<const Row> reduce_rows();
std::span<const Row> index_rows();
std::span<const Row> product_rows();
std::span<const Row> recurrent_rows();
std::span<const Row> source_rows();
std::span<const Row> numpy_rows();
std::span<const Row> matrix_rows();
std::span<const Row> density_rows();
std::span<const Row> image_rows();
std::span<const Row> einsum_rows();
std::span<const Row> sampler_rows();

}  // namespace tenon::mxnet
