// SPDX-License-Identifier: Apache-2.0
//
// A slice's values are in lanes of 32 bits. For v1model a field of 2,048 bits, the widest that p4c allows,
// has 64 lanes, so that a software switch executes only a few primitives for a slice. The first two blocks
// have separate, shorter fields. Tofino adds 32 bits at a time: with -DLANE_A_FIELD on the command line,
// each lane is a field.
//
// A slice has 1, 2, 4, 8 ... blocks of 32 values. So its values are a series of headers. Each header is as
// long as all headers before it together, and has the number of its first lane in its name. The macros
// repeat code for each header (HEADERS) and each field (FIELDS_...) of the program. BLOCKS, from the command
// line, is the number of blocks in the widest slice that the program accepts.
#ifndef TRIBUTARY_LANES_P4
#define TRIBUTARY_LANES_P4

#ifndef BLOCKS
#error "say -DBLOCKS=1, 2, 4 ... 64: how many blocks of 32 values the widest slice has"
#endif

// The fields of the header that begins with this lane: F(header, first lane, bits).
#ifdef LANE_A_FIELD
#define FIELDS_0(F) \
    F(0, 0, 32) F(0, 1, 32) F(0, 2, 32) F(0, 3, 32) F(0, 4, 32) F(0, 5, 32) F(0, 6, 32) F(0, 7, 32) \
    F(0, 8, 32) F(0, 9, 32) F(0, 10, 32) F(0, 11, 32) F(0, 12, 32) F(0, 13, 32) F(0, 14, 32) F(0, 15, 32) \
    F(0, 16, 32) F(0, 17, 32) F(0, 18, 32) F(0, 19, 32) F(0, 20, 32) F(0, 21, 32) F(0, 22, 32) F(0, 23, 32) \
    F(0, 24, 32) F(0, 25, 32) F(0, 26, 32) F(0, 27, 32) F(0, 28, 32) F(0, 29, 32) F(0, 30, 32) F(0, 31, 32)
#define FIELDS_32(F) \
    F(32, 32, 32) F(32, 33, 32) F(32, 34, 32) F(32, 35, 32) F(32, 36, 32) F(32, 37, 32) F(32, 38, 32) F(32, 39, 32) \
    F(32, 40, 32) F(32, 41, 32) F(32, 42, 32) F(32, 43, 32) F(32, 44, 32) F(32, 45, 32) F(32, 46, 32) F(32, 47, 32) \
    F(32, 48, 32) F(32, 49, 32) F(32, 50, 32) F(32, 51, 32) F(32, 52, 32) F(32, 53, 32) F(32, 54, 32) F(32, 55, 32) \
    F(32, 56, 32) F(32, 57, 32) F(32, 58, 32) F(32, 59, 32) F(32, 60, 32) F(32, 61, 32) F(32, 62, 32) F(32, 63, 32)
#else
#define FIELDS_0(F) F(0, 0, 1024)
#define FIELDS_32(F) F(32, 32, 1024)
#endif
#define FIELDS_64(F) F(64, 64, 2048)
#define FIELDS_128(F) F(128, 128, 2048) F(128, 192, 2048)
#define FIELDS_256(F) F(256, 256, 2048) F(256, 320, 2048) F(256, 384, 2048) F(256, 448, 2048)
#define FIELDS_512(F) \
    F(512, 512, 2048) F(512, 576, 2048) F(512, 640, 2048) F(512, 704, 2048) \
    F(512, 768, 2048) F(512, 832, 2048) F(512, 896, 2048) F(512, 960, 2048)
#define FIELDS_1024(F) \
    F(1024, 1024, 2048) F(1024, 1088, 2048) F(1024, 1152, 2048) F(1024, 1216, 2048) \
    F(1024, 1280, 2048) F(1024, 1344, 2048) F(1024, 1408, 2048) F(1024, 1472, 2048) \
    F(1024, 1536, 2048) F(1024, 1600, 2048) F(1024, 1664, 2048) F(1024, 1728, 2048) \
    F(1024, 1792, 2048) F(1024, 1856, 2048) F(1024, 1920, 2048) F(1024, 1984, 2048)

// The headers of the program: H(first lane, blocks up to its last lane, first lane of the next header).
#if BLOCKS == 1
#define HEADERS(H) H(0, 1, end)
#elif BLOCKS == 2
#define HEADERS(H) H(0, 1, 32) H(32, 2, end)
#elif BLOCKS == 4
#define HEADERS(H) H(0, 1, 32) H(32, 2, 64) H(64, 4, end)
#elif BLOCKS == 8
#define HEADERS(H) H(0, 1, 32) H(32, 2, 64) H(64, 4, 128) H(128, 8, end)
#elif BLOCKS == 16
#define HEADERS(H) \
    H(0, 1, 32) H(32, 2, 64) H(64, 4, 128) H(128, 8, 256) \
    H(256, 16, end)
#elif BLOCKS == 32
#define HEADERS(H) \
    H(0, 1, 32) H(32, 2, 64) H(64, 4, 128) H(128, 8, 256) \
    H(256, 16, 512) H(512, 32, end)
#elif BLOCKS == 64
#define HEADERS(H) \
    H(0, 1, 32) H(32, 2, 64) H(64, 4, 128) H(128, 8, 256) \
    H(256, 16, 512) H(512, 32, 1024) H(1024, 64, end)
#else
#error "BLOCKS is a power of two, 64 at most"
#endif

// Masks for the lanes of a field. Arithmetic over the whole field must not carry from one lane into the
// next one, so it excludes the top bit of each lane.
const bit<128> TOPS_4 = 0x80000000_80000000_80000000_80000000;
const bit<512> TOPS_16 = TOPS_4 ++ TOPS_4 ++ TOPS_4 ++ TOPS_4;
const bit<1024> TOPS_1024 = TOPS_16 ++ TOPS_16;
const bit<1024> RESTS_1024 = ~TOPS_1024;
const bit<2048> TOPS_2048 = TOPS_1024 ++ TOPS_1024;
const bit<2048> RESTS_2048 = ~TOPS_2048;

#endif
