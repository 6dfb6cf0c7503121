c000302f
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%bccef7257bcf = amo('minu', 64, %498030703cb1, %498030703cb1) @0
%c6c7e6db27a8 = set_x(0, %bccef7257bcf) @1
amo('minu', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %bccef7257bcf) @1

c7ffbfaf
%709670f02060 = amo('minu', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%ceb074ddaf6f = set_x(31, %709670f02060) @1
amo('minu', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %709670f02060) @1

c555352f
%630dc12abcbe = amo('minu', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%cb11c2b99c66 = set_x(10, %630dc12abcbe) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('minu', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %630dc12abcbe) @1

c2aabaaf
%6cbc8f8e79f7 = amo('minu', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%9d4f19db09de = set_x(21, %6cbc8f8e79f7) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('minu', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %6cbc8f8e79f7) @1

c041382f
%34233e0c750e = amo('minu', 64, %92512cea6f4a, %d8b92a92d74d) @0
%92512cea6f4a = x(2) @0
%98f212d29f6b = set_x(16, %34233e0c750e) @1
%d8b92a92d74d = x(4) @0
amo('minu', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %34233e0c750e) @1
