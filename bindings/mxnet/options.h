// Options as strings: those that users pass to optimize_for and hybridize, and those that a node of a subgraph keeps.
#pragma once

#include "bindings/mxnet/partition.h"

namespace tenon::plugin {

// Throws Failure for a value that an option does not take. Other options are MXNet's.
Options user_options(const char* const* keys, const char* const* values, int count);

// What a node keeps of the options, and reads again.
Strings node_attributes(const Options& options);
Options node_options(const char* const* keys, const char* const* values, int count);

}  // namespace tenon::plugin
