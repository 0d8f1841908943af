// The C++ header compiles and links from the installed tree.
#include <tenon/tenon.hpp>

int main() { return 0; }
