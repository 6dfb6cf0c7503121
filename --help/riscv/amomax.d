a000302f
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%9dc80422ce8a = amo('max', 64, %498030703cb1, %498030703cb1) @0
%b050c6441e7e = set_x(0, %9dc80422ce8a) @1
amo('max', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %9dc80422ce8a) @1

a7ffbfaf
%0e524a110e69 = amo('max', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%34f820bbc635 = set_x(31, %0e524a110e69) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
amo('max', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %0e524a110e69) @1

a555352f
%1dd60f94f376 = amo('max', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%d7d1b5e24308 = x(21) @0
%d95bcf00eb4e = set_x(10, %1dd60f94f376) @1
%fdc90ec243aa = x(10) @0
amo('max', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %1dd60f94f376) @1

a2aabaaf
%1ce11cd8c17f = amo('max', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%d7d1b5e24308 = x(21) @0
%faa243fb1584 = set_x(21, %1ce11cd8c17f) @1
%fdc90ec243aa = x(10) @0
amo('max', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %1ce11cd8c17f) @1

a041382f
%42cf7d94744e = amo('max', 64, %92512cea6f4a, %d8b92a92d74d) @0
%5aab0ec2b114 = set_x(16, %42cf7d94744e) @1
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
amo('max', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %42cf7d94744e) @1
