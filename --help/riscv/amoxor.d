2000302f
%130a239146d1 = set_x(0, %d30830cd60af) @1
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%d30830cd60af = amo('xor', 64, %498030703cb1, %498030703cb1) @0
amo('xor', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %d30830cd60af) @1

27ffbfaf
%8f58a067038a = amo('xor', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%d457c82d9bff = set_x(31, %8f58a067038a) @1
amo('xor', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %8f58a067038a) @1

2555352f
%2b0a20e6c9a8 = amo('xor', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%9da9a177ed99 = set_x(10, %2b0a20e6c9a8) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('xor', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %2b0a20e6c9a8) @1

22aabaaf
%59393d9f11a6 = set_x(21, %cf5122ea6b62) @1
%cf5122ea6b62 = amo('xor', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('xor', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %cf5122ea6b62) @1

2041382f
%1e85f23b69bb = amo('xor', 64, %92512cea6f4a, %d8b92a92d74d) @0
%92512cea6f4a = x(2) @0
%d0362489c928 = set_x(16, %1e85f23b69bb) @1
%d8b92a92d74d = x(4) @0
amo('xor', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %1e85f23b69bb) @1
