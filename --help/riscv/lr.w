1000202f
%498030703cb1 = x(0) @0
%9905318022c4 = set_x(0, %bd96383bd363) @1
%bd96383bd363 = sext(64, 32, %f198e9a696d9)
%f198e9a696d9 = load_reserved(32, %498030703cb1) @0
load_reserved(32, %498030703cb1) @0
set_x(0, %bd96383bd363) @1

160fafaf
%47109b91468a = set_x(31, %54e4f0142867) @1
%4ed7a3659873 = load_reserved(32, %ad2c4153cfa8) @0
%54e4f0142867 = sext(64, 32, %4ed7a3659873)
%ad2c4153cfa8 = x(31) @0
load_reserved(32, %ad2c4153cfa8) @0
set_x(31, %54e4f0142867) @1

1405252f
%0079607576bf = load_reserved(32, %fdc90ec243aa) @0
%bc05b696e785 = set_x(10, %f6b54725485f) @1
%f6b54725485f = sext(64, 32, %0079607576bf)
%fdc90ec243aa = x(10) @0
load_reserved(32, %fdc90ec243aa) @0
set_x(10, %f6b54725485f) @1

120aaaaf
%4a64dd4fed45 = set_x(21, %c6d77a09e933) @1
%8c5541669c71 = load_reserved(32, %d7d1b5e24308) @0
%c6d77a09e933 = sext(64, 32, %8c5541669c71)
%d7d1b5e24308 = x(21) @0
load_reserved(32, %d7d1b5e24308) @0
set_x(21, %c6d77a09e933) @1

1001282f
%2fbefe96fa11 = set_x(16, %b2aa2c697e1b) @1
%92512cea6f4a = x(2) @0
%b2aa2c697e1b = sext(64, 32, %e83ba387d2bd)
%e83ba387d2bd = load_reserved(32, %92512cea6f4a) @0
load_reserved(32, %92512cea6f4a) @0
set_x(16, %b2aa2c697e1b) @1
