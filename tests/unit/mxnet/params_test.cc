// Reading .params files (src/mxnet/params.h).
#include "src/mxnet/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace tenon::mxnet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Appends numbers, little-endian as the machine.
class Bytes {
 public:
  template <class T>
  Bytes& operator<<(T value) {
    const auto* p = reinterpret_cast<const unsigned char*>(&value);
    bytes.insert(bytes.end(), p, p + sizeof value);
    return *this;
  }
  Bytes& text(const std::string& s) {
    *this << uint64_t{s.size()};
    bytes.insert(bytes.end(), s.begin(), s.end());
    return *this;
  }
  Bytes& append(const Bytes& other) {
    bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
    return *this;
  }
  std::vector<unsigned char> bytes;
};

Bytes list(uint64_t count) { return Bytes() << uint64_t{0x112} << uint64_t{0} << count; }
Bytes file(const Bytes& tensor, const std::string& name = "arg:w") {
  return list(1).append(tensor).append(Bytes() << uint64_t{1}).append(Bytes().text(name));
}
// The device, the dtype f32 and two elements.
Bytes data() { return Bytes() << int32_t{1} << int32_t{0} << int32_t{0} << 1.5F << 2.5F; }

const Bytes kVersion2 =
    (Bytes() << uint32_t{0xF993FAC9} << int32_t{0} << int32_t{2} << int64_t{2} << int64_t{1}).append(data());
const Bytes kVersion3 =
    (Bytes() << uint32_t{0xF993FACA} << int32_t{0} << int32_t{2} << int64_t{2} << int64_t{1}).append(data());
const Bytes kVersion1 =
    (Bytes() << uint32_t{0xF993FAC8} << int32_t{2} << int64_t{2} << int64_t{1}).append(data());
const Bytes kOldest = (Bytes() << uint32_t{2} << uint32_t{2} << uint32_t{1}).append(data());

TEST(Params, AllVersions) {
  for (const Bytes& tensor : {kVersion1, kVersion2, kVersion3, kOldest}) {
    const Bytes bytes = file(tensor);
    const auto params = parse_params(bytes.bytes);
    ASSERT_TRUE(params.ok()) << params.status().message();
    ASSERT_EQ(params->size(), 1u);
    const Param& p = (*params)[0];
    EXPECT_EQ(p.name, "w");
    EXPECT_FALSE(p.aux);
    EXPECT_EQ(p.dtype, DType::f32);
    EXPECT_THAT(p.shape, ElementsAre(2, 1));
    ASSERT_EQ(p.size, 8u);
    float values[2];
    std::memcpy(values, bytes.bytes.data() + p.offset, p.size);
    EXPECT_THAT(values, ElementsAre(1.5F, 2.5F));
  }
}

TEST(Params, NamesAndTensorsWithoutShape) {
  const Bytes none = Bytes() << uint32_t{0xF993FAC9} << int32_t{0} << int32_t{0};
  const Bytes bytes = list(2)
                          .append(none)
                          .append(kVersion2)
                          .append(Bytes() << uint64_t{2})
                          .append(Bytes().text("a").text("aux:m"));
  const auto params = parse_params(bytes.bytes);
  ASSERT_TRUE(params.ok()) << params.status().message();
  ASSERT_EQ(params->size(), 1u);
  EXPECT_EQ((*params)[0].name, "m");
  EXPECT_TRUE((*params)[0].aux);
  const Bytes unnamed = list(1).append(kVersion2) << uint64_t{0};
  EXPECT_EQ((*parse_params(unnamed.bytes))[0].name, "");
}

TEST(Params, AScalarOfNumPy) {
  const Bytes scalar = Bytes() << uint32_t{0xF993FACA} << int32_t{0} << int32_t{0} << int32_t{1} << int32_t{0}
                               << int32_t{4} << int32_t{7};
  const Bytes bytes = file(scalar);
  const auto params = parse_params(bytes.bytes);
  ASSERT_TRUE(params.ok()) << params.status().message();
  EXPECT_TRUE((*params)[0].shape.empty());
  EXPECT_EQ((*params)[0].dtype, DType::i32);
}

std::string refusal(const Bytes& bytes) {
  const auto params = parse_params(bytes.bytes);
  EXPECT_FALSE(params.ok());
  return params.status().message();
}

TEST(Params, MistakesNameTheByte) {
  EXPECT_THAT(refusal(Bytes() << uint64_t{1}), HasSubstr("byte 0"));
  EXPECT_THAT(refusal(list(uint64_t{1} << 60)), HasSubstr("byte 24"));
  const Bytes sparse = Bytes() << uint32_t{0xF993FAC9} << int32_t{1};
  EXPECT_THAT(refusal(file(sparse)), HasSubstr("sparse"));
  const Bytes huge = (Bytes() << uint32_t{0xF993FAC9} << int32_t{0} << int32_t{2} << (int64_t{1} << 40)
                              << (int64_t{1} << 40))
                         .append(data());
  EXPECT_THAT(refusal(file(huge)), HasSubstr("overflows"));
  const Bytes negative =
      (Bytes() << uint32_t{0xF993FAC9} << int32_t{0} << int32_t{1} << int64_t{-2}).append(data());
  EXPECT_THAT(refusal(file(negative)), HasSubstr("size -2"));
  const Bytes dtype = Bytes() << uint32_t{0xF993FAC9} << int32_t{0} << int32_t{1} << int64_t{1} << int32_t{1}
                              << int32_t{0} << int32_t{77};
  EXPECT_THAT(refusal(file(dtype)), HasSubstr("dtype 77"));
  EXPECT_THAT(refusal(file(kVersion2) << 'x'), HasSubstr("follow the last name"));
  EXPECT_THAT(refusal(list(1).append(kVersion2) << uint64_t{2}), HasSubstr("2 names for 1"));
}

TEST(Params, EveryCutIsRefused) {
  const Bytes whole = file(kVersion2);
  for (size_t n = 0; n < whole.bytes.size(); ++n) {
    Bytes cut;
    cut.bytes.assign(whole.bytes.begin(), whole.bytes.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_THAT(refusal(cut), HasSubstr("byte")) << n;
  }
}

}  // namespace
}  // namespace tenon::mxnet
