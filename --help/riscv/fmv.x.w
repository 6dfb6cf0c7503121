e0000053
%28a6c2088116 = trunc(32, 64, %b25c6b2484df)
%59664a1c43c3 = set_x(0, %b665cb9ea468) @0
%b25c6b2484df = f_raw(0) @0
%b665cb9ea468 = sext(64, 32, %28a6c2088116)
set_x(0, %b665cb9ea468) @0

e00f8fd3
%0cfb775fb521 = trunc(32, 64, %9f1110808e42)
%6e2d5cf73542 = set_x(31, %b0c6752141c5) @0
%9f1110808e42 = f_raw(31) @0
%b0c6752141c5 = sext(64, 32, %0cfb775fb521)
set_x(31, %b0c6752141c5) @0

e0050553
%067113c05ef6 = set_x(10, %35854656d740) @0
%10e8212e13b3 = f_raw(10) @0
%35854656d740 = sext(64, 32, %5289f02efc5c)
%5289f02efc5c = trunc(32, 64, %10e8212e13b3)
set_x(10, %35854656d740) @0

e00a8ad3
%2b922e1a3ec7 = sext(64, 32, %5ccce1d5738a)
%3ab5587f35dd = set_x(21, %2b922e1a3ec7) @0
%5ccce1d5738a = trunc(32, 64, %9329d1bfddf7)
%9329d1bfddf7 = f_raw(21) @0
set_x(21, %2b922e1a3ec7) @0

e0010853
%1a79d79d0bf6 = trunc(32, 64, %5dfcc6457266)
%1daebec91e0c = set_x(16, %dbca0b189b31) @0
%5dfcc6457266 = f_raw(2) @0
%dbca0b189b31 = sext(64, 32, %1a79d79d0bf6)
set_x(16, %dbca0b189b31) @0
