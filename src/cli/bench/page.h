// The text of page.html, which the build embeds. Tested by tests/bench_test.py.
#pragma once

#include <string_view>

namespace tenon::cli {

std::string_view bench_page_template();

}  // namespace tenon::cli
