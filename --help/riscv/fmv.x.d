e2000053
%8e574fc29789 = set_x(0, %b25c6b2484df) @0
%b25c6b2484df = f_raw(0) @0
set_x(0, %b25c6b2484df) @0

e20f8fd3
%0c9860a60682 = set_x(31, %9f1110808e42) @0
%9f1110808e42 = f_raw(31) @0
set_x(31, %9f1110808e42) @0

e2050553
%10e8212e13b3 = f_raw(10) @0
%723daddfcbc9 = set_x(10, %10e8212e13b3) @0
set_x(10, %10e8212e13b3) @0

e20a8ad3
%9329d1bfddf7 = f_raw(21) @0
%b1ff2d030d02 = set_x(21, %9329d1bfddf7) @0
set_x(21, %9329d1bfddf7) @0

e2010853
%5dfcc6457266 = f_raw(2) @0
%d11cdaeafc13 = set_x(16, %5dfcc6457266) @0
set_x(16, %5dfcc6457266) @0
