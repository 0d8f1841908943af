// The polynomials of I0 and I1, fitted with 40 digits. On [0, 8]: e^-x I0(x) and e^-x I1(x) / x in t = x / 4
// - 1. Beyond: sqrt(x) e^-x I(x) in t = 16 / x - 1 (DLMF 10.40.1). There are long ones to the precision of an
// f64 and shorter ones to that of an f32. Tested by tests/unit/ops/special_test.cc.
#pragma once

namespace tenon::bessel {

inline constexpr double kI0Small[] = {
    0x1.a7f09f8eedf5ap-3,  -0x1.cedda0048620cp-4,  0x1.8322d1d8a3bcdp-4,  -0x1.6cb8d0c91587ap-4,
    0x1.65c235bfea525p-4,  -0x1.5c028fe647b97p-4,  0x1.44b6196a81cd2p-4,  -0x1.1cd73a8e68ccdp-4,
    0x1.d11e10f4df976p-5,  -0x1.602411e311459p-5,  0x1.ee6f5662ed94p-6,   -0x1.427b098c73974p-6,
    0x1.87e866afec072p-7,  -0x1.bd258f50f2bbbp-8,  0x1.da1ab100a3279p-9,  -0x1.daf9aa1897dd3p-10,
    0x1.c0f3e4b25cda1p-11, -0x1.91807fa4d8274p-12, 0x1.549d756b72d33p-13, -0x1.12c356acb216ep-14,
    0x1.a681c80c0a7f1p-16, -0x1.366f54c213419p-17, 0x1.b42febce920ccp-19, -0x1.24261d26d0826p-20,
    0x1.7a1853253013bp-22, -0x1.e8f1aa095cd03p-24, 0x1.23cbc2a0d556ap-25, -0x1.095d0ee259a0fp-27,
    0x1.2cb083ee40aeep-29, -0x1.45cb72134d0efp-30, 0x1.4ea63223aef14p-32};
inline constexpr double kI0Large[] = {
    0x1.9bd428ad249a5p-2,   0x1.b87969bb93bcp-9,   0x1.1daa72b5e65fcp-13,  0x1.75e5ee702007ep-17,
    0x1.8e513a0ac9181p-20,  0x1.3f49ad6d6f0a1p-22, 0x1.7d0fa25980c1ap-24,  0x1.51cbf2b8d32b7p-25,
    0x1.7219c8ee56ad4p-26,  0x1.03e3a46a554fap-27, -0x1.cd0a7f75b5268p-28, -0x1.ce4513f876844p-27,
    -0x1.7eff15504675ap-28, 0x1.087d59e67c7aep-27, 0x1.103d02e6bfeafp-27,  -0x1.0693a8366885bp-28,
    -0x1.dcd81d0c61ce6p-28, 0x1.10973e09f287fp-29, 0x1.56f1d3b1b3a43p-28,  -0x1.1a39fc6f3bf77p-30,
    -0x1.8ab4cd3d4020ep-29, 0x1.e28f74bf3433bp-32, 0x1.4b8dc5e843814p-30,  -0x1.1153c28a5c5a9p-33,
    -0x1.60f60148f6515p-32, 0x1.24d48c789b293p-36, 0x1.604db61ad3debp-35};
inline constexpr double kI1Small[] = {
    0x1.6e14eb8e5d319p-5,  -0x1.f4bb071a7752bp-5,  0x1.16c390ddb08ecp-4,  -0x1.1881379ffb5cp-4,
    0x1.0530f817ffa4bp-4,  -0x1.c4daa51341cecp-5,  0x1.6df95e8bdfc56p-5,  -0x1.13d5f358a4538p-5,
    0x1.84125b0d2e47fp-6,  -0x1.fe3d9c01c0f92p-7,  0x1.3a0c1a00727d6p-7,  -0x1.6ab6a385fff9p-8,
    0x1.89f8a695c14a5p-9,  -0x1.936826ab64aacp-10, 0x1.8656c15e753d1p-11, -0x1.65bf648a39793p-12,
    0x1.37430c5bd419dp-13, -0x1.01a443791d1abp-14, 0x1.96932d5f66fc6p-16, -0x1.32695b322d6dp-17,
    0x1.ba19833b81b33p-19, -0x1.3185873978224p-20, 0x1.93a8b3a01bb0bp-22, -0x1.01919a9b8d686p-23,
    0x1.46ac85139924fp-25, -0x1.81ab86ff6c562p-27, 0x1.65c830072c746p-29, -0x1.900f247d3c0a1p-31,
    0x1.99f2a0c3c4014p-32, -0x1.a21dbdbdd0288p-34};
inline constexpr double kI1Large[] = {
    0x1.8ebe783a8403p-2,    -0x1.3f796198ee63ap-7,  -0x1.cbc54df1ecf62p-13, -0x1.f89c2304b860ep-17,
    -0x1.ec8e1003fce04p-20, -0x1.761384ba8ebf9p-22, -0x1.ad8de57f3f4ffp-24, -0x1.7277b8802ae6ap-25,
    -0x1.91759fab32ad6p-26, -0x1.21de6538102d1p-27, 0x1.cc06c41e1855cp-28,  0x1.e3a948c415f47p-27,
    0x1.a69d58942c511p-28,  -0x1.0b4539bc94915p-27, -0x1.20a8e052b5bb9p-27, 0x1.ff8b852ecf6dbp-29,
    0x1.f378468033ef8p-28,  -0x1.0183064563578p-29, -0x1.657e73fb0c472p-28, 0x1.07047fc5cbf7ap-30,
    0x1.9ac4c401343a2p-29,  -0x1.c15e6112d1143p-32, -0x1.58ea81b215aecp-30, 0x1.fef895f7b3a5dp-34,
    0x1.6f38e89af41c8p-32,  -0x1.12e7f21d2c006p-36, -0x1.6ea1785f94461p-35};
inline constexpr double kI0SmallF32[] = {
    0x1.a7f09f8f074acp-3,  -0x1.cedd9fec5a165p-4,  0x1.8322d1a8fa1bbp-4,  -0x1.6cb8d7ab095e7p-4,
    0x1.65c23d2763687p-4,  -0x1.5c01fc52dedecp-4,  0x1.44b5a6b97cf7p-4,   -0x1.1cdce2ef6e9d7p-4,
    0x1.d1252becdb66fp-5,  -0x1.5fe72e8838301p-5,  0x1.ee2dc3d60d855p-6,  -0x1.44036b943aa8ep-6,
    0x1.89603d69c5da6p-7,  -0x1.b0d720be2894ep-8,  0x1.cf5c47c60fc72p-9,  -0x1.0c5980528c40fp-9,
    0x1.f2f00f73bf782p-11, -0x1.af82352af7d52p-13, 0x1.8e631923096a9p-14, -0x1.1d4fe13ae9556p-13,
    0x1.a98becc743c1p-15};
inline constexpr double kI0LargeF32[] = {0x1.9bd428acb326bp-2,  0x1.b8796bf30abf3p-9,  0x1.1dab087f9e7f9p-13,
                                         0x1.75ca49b223711p-17, 0x1.8c3de69f228d9p-20, 0x1.49fedb6a15d0cp-22,
                                         0x1.d2c64a9225b87p-24, 0x1.0f9ccc0f46f75p-25};
inline constexpr double kI1SmallF32[] = {
    0x1.6e14eb8ccb58p-5,   -0x1.f4bb0714e5456p-5,  0x1.16c39179c6ba7p-4,  -0x1.1881386b1f27dp-4,
    0x1.0530e41c8b1f4p-4,  -0x1.c4da8305d474p-5,   0x1.6dfb59b7278cbp-5,  -0x1.13d741d7a15c5p-5,
    0x1.83f8e2047a7bfp-6,  -0x1.fe217466fadc9p-7,  0x1.3ac78a0611987p-7,  -0x1.6b6c57abdfbedp-8,
    0x1.837308bad3f21p-9,  -0x1.8db249c9c9721p-10, 0x1.a9eef2d2ab0c2p-11, -0x1.8279cb4b2f7b4p-12,
    0x1.887417355898cp-14, -0x1.558041adb6ce6p-15, 0x1.8ea34b43fdf6cp-15, -0x1.2510397eb07dep-16};
inline constexpr double kI1LargeF32[] = {
    0x1.8ebe783b189bcp-2,   -0x1.3f79622a3e433p-7,  -0x1.cbc609131f651p-13, -0x1.f87ff80ce5584p-17,
    -0x1.ea1483034ae8fp-20, -0x1.80dc752536e4dp-22, -0x1.0790b9ad53528p-23, -0x1.334ca5423dd8p-25};

}  // namespace tenon::bessel
