// Which convolutions suit lanes of neighbouring pixels, and that these run in loops.
#include "src/ops/rules/pixel_lanes.h"

#include <gtest/gtest.h>

#include "src/ops/rows/names.h"
#include "tests/support/graph_check.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

struct Case {
  std::string x, w;
  int groups = 1;
  std::string more = {};  // attributes
  bool suits = true;
  std::string padding = {};  // empty: of one pixel
};

std::string text_of(const Case& c) {
  const bool volume = std::ranges::count(c.w, ',') == 4;
  const std::string ones = volume ? "[1,1,1]" : "[1,1]";
  const std::string padding = c.padding.empty() ? ones : c.padding;
  std::string attrs = "padding=" + padding + ", padding_high=" + padding + ", dilations=" + ones +
                      ", groups=" + std::to_string(c.groups) + c.more;
  if (c.more.find("strides") == std::string::npos) attrs += ", strides=" + ones;
  return "graph @g(%x: " + c.x + ", %w: " + c.w + ") {\n  %y = convolution(%x, %w){" + attrs +
         "}\n  return %y\n}\n";
}

TEST(PixelLanes, FewChannels) {
  const std::string last = ", layout=\"channels_last\"",
                    transposed = ", transposed=true, output_padding=[0,0]";
  const Case cases[] = {
      {"f32[N,1,H,W]", "f32[1,1,3,3]"},
      {"f32[N,3,H,W]", "f32[3,3,3,3]"},
      {"f32[N,64,H,W]", "f32[1,64,3,3]"},
      {"f32[N,64,H,W]", "f32[4,64,3,3]"},
      {"f32[N,65,H,W]", "f32[4,65,3,3]", 1, "", false},
      {"f32[N,22,H,24]", "f32[3,22,3,3]"},
      {"f32[N,22,H,23]", "f32[3,22,3,3]", 1, "", false},
      {"f32[N,3,H,W]", "f32[5,3,3,3]", 1, "", false},
      {"f32[N,H,W,21]", "f32[3,21,3,3]", 1, last},
      {"f32[N,H,W,22]", "f32[3,22,3,3]", 1, last, false},
      {"f32[N,H,W,3]", "f32[4,3,3,3]", 1, last, false},
      {"f32[N,22,D,H,W]", "f32[3,22,3,3,3]", 1, "", false},
      {"f32[N,8,H,W]", "f32[16,1,3,3]", 8},
      {"f32[N,8,H,W]", "f32[40,1,3,3]", 8, "", false},
      {"f32[N,8,H,W]", "f32[8,1,3,3]", 8},
      {"f32[N,16,H,W]", "f32[16,1,3,3]", 16, "", false},
      {"f32[N,16,D,H,W]", "f32[16,1,3,3,3]", 16},
      {"bf16[N,16,D,H,W]", "bf16[16,1,3,3,3]", 16},
      {"f32[N,16,D,H,23]", "f32[16,1,3,3,3]", 16, "", false},
      {"f16[N,16,D,H,W]", "f16[16,1,3,3,3]", 16, ", strides=[2,2,2]", false},
      {"f16[N,15,D,H,W]", "f16[15,1,3,3,3]", 15, ", strides=[2,2,2]"},
      {"f32[N,8,D,H,W]", "f32[8,1,3,3,3]", 8, ", strides=[2,2,2], transposed=true, output_padding=[0,0,0]",
       false},
      {"f32[N,D,H,W,16]", "f32[16,1,3,3,3]", 16, last, false},
      {"f32[N,H,W,4]", "f32[4,1,3,3]", 4, last},
      {"f32[N,H,W,8]", "f32[8,1,3,3]", 8, last, false},
      {"f32[N,H,W,8]", "f32[8,2,3,3]", 4, last},
      {"f32[N,15,H,W]", "f32[15,1,3,3]", 3, transposed},
      {"f32[N,3,H,W]", "f32[3,5,3,3]", 3, transposed, false},
      {"f32[N,3,H,W]", "f32[3,3,3,3]", 1, ", strides=[2,2]", false},
      {"bf16[N,3,H,W]", "bf16[3,3,3,3]", 1, "", false},
      {"bf16[N,64,H,W]", "bf16[2,64,3,3]"},
      {"f16[N,H,W,16]", "f16[1,16,3,3]", 1, last},
      {"bf16[N,64,H,W]", "bf16[2,64,1,1]", 1, "", false, "[0,0]"},
      {"bf16[N,64,H,W]", "bf16[1,64,1,1]", 1, "", true, "[0,0]"},
      {"f32[N,64,H,W]", "f32[2,64,1,1]", 1, "", true, "[0,0]"},
      {"bf16[N,8,H,W]", "bf16[8,1,3,3]", 8},
      {"f64[N,3,H,W]", "f64[1,3,3,3]", 1, "", false},
      {"f32[N,3,H,W]", "f32[3,3,3,3]", 1, ", tf32=true", false},
      {"f32[N,C,H,W]", "f32[C,C,3,3]", 1, "", false},
  };
  for (const Case& c : cases) {
    const std::string text = text_of(c);
    auto graph = parse_graph(text);
    ASSERT_TRUE(graph.ok()) << graph.status().message() << "\n" << text;
    const auto node = std::ranges::find(graph->nodes, ops::convolution, &Node::op);
    EXPECT_EQ(suits_pixel_lanes(*graph, *node), c.suits) << text;
  }
}

TEST(PixelLanes, RunInLoops) {
  const Case cases[] = {
      {"f32[1,3,H,W]", "f32[3,1,11,11]", 3},
      {"f32[2,64,H,W]", "f32[4,64,3,3]"},
      {"f32[2,64,H,W]", "f32[64,4,3,3]", 1, ", transposed=true, output_padding=[0,0]"},
      {"f32[1,4,D,H,W]", "f32[4,1,3,3,3]", 4},
      {"bf16[2,64,H,W]", "bf16[2,64,3,3]"},
      {"f16[2,8,H,W]", "f16[8,1,5,5]", 8},
      {"f32[1,H,W,6]", "f32[4,3,5,5]", 2, ", layout=\"channels_last\""},
      {"f32[1,6,H,W]", "f32[6,1,13,9]", 3, ", transposed=true, output_padding=[0,0]"},
  };
  for (const Case& c : cases) {
    const std::string shown = program_of(text_of(c))->explain(false);
    EXPECT_EQ(shown.find("(onednn)"), std::string::npos) << shown;
    auto graph = parse_graph(text_of(c));
    std::vector<HostTensor> inputs = random_inputs(*graph, 10);
    const CheckResult result = check_program(*graph, inputs);
    EXPECT_EQ(result.kind, CheckResult::right) << result.message;
  }
}

}  // namespace
}  // namespace tenon
