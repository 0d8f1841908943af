// upgrade: brings a symbol of an older MXNet to the form of MXNet 1.9, as MXNet does when it loads one. Tested by
// tests/unit/mxnet/symbol_test.cc.
#pragma once

#include "src/mxnet/symbol.h"

namespace tenon::mxnet {

// symbol.version says which MXNet has written it; afterwards it is 10901. Nodes keep their order, but a missing
// auxiliary variable is inserted before its reader.
void upgrade(Symbol& symbol);

}  // namespace tenon::mxnet
