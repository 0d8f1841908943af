// The values of a double that have no literal.
#pragma once

#include <limits>

namespace tenon {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace tenon
