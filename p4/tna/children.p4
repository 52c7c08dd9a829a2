// SPDX-License-Identifier: Apache-2.0
//
// A slot's bitmap has 32 bits, the width of a stateful ALU, so children are numbered 0 to 31.
#ifndef TRIBUTARY_TNA_CHILDREN_P4
#define TRIBUTARY_TNA_CHILDREN_P4

#define CHILDREN(C) \
    C(0) C(1) C(2) C(3) C(4) C(5) C(6) C(7) C(8) C(9) C(10) C(11) C(12) C(13) C(14) C(15) \
    C(16) C(17) C(18) C(19) C(20) C(21) C(22) C(23) C(24) C(25) C(26) C(27) C(28) C(29) C(30) C(31)

#if BLOCKS > 2
#error "Tofino adds up 32 values, Tofino 2 up to 64: -DBLOCKS=1 or 2"
#endif

#endif
