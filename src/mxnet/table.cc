// See table.h.
#include "src/mxnet/table.h"

#include <unordered_map>

namespace tenon::mxnet {
namespace {

struct Table {
  std::vector<const Row*> rows;
  std::unordered_map<std::string_view, const Row*> by_name;
  std::unordered_map<const Row*, std::vector<AttrColumn>> columns;
};

template <class Take>
void split(std::string_view words, Take take) {
  while (!words.empty()) {
    const size_t space = words.find(' ');
    if (space != 0) take(words.substr(0, space));
    words = space == words.npos ? std::string_view() : words.substr(space + 1);
  }
}

const Table& table() {
  static const Table* const made = [] {
    auto* t = new Table;
    for (const auto rows : {elementwise_rows, scalar_rows, neural_rows, norm_rows, window_rows, shape_rows,
                            slice_rows, reduce_rows, index_rows, product_rows, recurrent_rows, source_rows,
                            numpy_rows, matrix_rows, density_rows, image_rows, einsum_rows, sampler_rows}) {
      for (const Row& row : rows()) {
        t->rows.push_back(&row);
        t->columns[&row] = parse_columns(row.attrs);
        split(row.names, [&](std::string_view name) {
          TENON_CHECK(t->by_name.emplace(name, &row).second, "two rows for " + std::string(name));
        });
      }
    }
    return t;
  }();
  return *made;
}

}  // namespace

const Row* find_row(std::string_view op) {
  const auto it = table().by_name.find(op);
  return it == table().by_name.end() ? nullptr : it->second;
}

const std::vector<AttrColumn>& columns_of(const Row& row) { return table().columns.at(&row); }
std::vector<const Row*> all_rows() { return table().rows; }

std::vector<std::string> operand_names(const Row& row) {
  std::vector<std::string> out;
  split(row.operands, [&](std::string_view word) {
    if (word.ends_with('?') || word.ends_with('*')) word.remove_suffix(1);
    out.emplace_back(word);
  });
  return out;
}

int operand_index(const Row& row, std::string_view name) {
  const std::vector<std::string> names = operand_names(row);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<int>(i);
  return -1;
}

std::pair<size_t, size_t> operand_range(const Row& row) {
  size_t least = 0, most = 0;
  split(row.operands, [&](std::string_view word) {
    if (word.ends_with('*')) {
      most = SIZE_MAX;
      ++least;
      return;
    }
    if (!word.ends_with('?')) ++least;
    ++most;
  });
  return {least, most};
}

}  // namespace tenon::mxnet
