5a000053
%013e2b167300 = set_f(0, 'd', %d0a1ed24cfa8) @0
%7aae32394321 = f(0, 'd') @0
%d0a1ed24cfa8 = fsqrt('d', %7aae32394321, 0)
set_f(0, 'd', %d0a1ed24cfa8) @0

5a0fffd3
%3a7e4d4e213a = fsqrt('d', %b86a220652c0, 7)
%b86a220652c0 = f(31, 'd') @0
%d1f810e40302 = set_f(31, 'd', %3a7e4d4e213a) @0
set_f(31, 'd', %3a7e4d4e213a) @0

5a055553
%62da237bc537 = f(10, 'd') @0
%7eddfa5a7edf = fsqrt('d', %62da237bc537, 5)
%b1dda7cd9a44 = set_f(10, 'd', %7eddfa5a7edf) @0
set_f(10, 'd', %7eddfa5a7edf) @0

5a0aaad3
%ace184d3062d = set_f(21, 'd', %ed49ef4247b8) @0
%d5de765faf78 = f(21, 'd') @0
%ed49ef4247b8 = fsqrt('d', %d5de765faf78, 2)
set_f(21, 'd', %ed49ef4247b8) @0

5a010853
%072028da21a9 = fsqrt('d', %f0914d36dfcb, 0)
%8bec6b462166 = set_f(16, 'd', %072028da21a9) @0
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %072028da21a9) @0
