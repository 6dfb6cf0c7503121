0000302f
%47b0a1899f15 = set_x(0, %c9cf23bc9461) @1
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%c9cf23bc9461 = amo('add', 64, %498030703cb1, %498030703cb1) @0
amo('add', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %c9cf23bc9461) @1

07ffbfaf
%58070edb9585 = amo('add', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%801f76de3fee = set_x(31, %58070edb9585) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
amo('add', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %58070edb9585) @1

0555352f
%8707db02c016 = set_x(10, %d79e4d195cb6) @1
%d79e4d195cb6 = amo('add', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('add', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %d79e4d195cb6) @1

02aabaaf
%1a0a7b250b1e = amo('add', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%cc8646a9529e = set_x(21, %1a0a7b250b1e) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('add', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %1a0a7b250b1e) @1

0041382f
%343b4e6d61d8 = amo('add', 64, %92512cea6f4a, %d8b92a92d74d) @0
%92512cea6f4a = x(2) @0
%bb5be5e9aebc = set_x(16, %343b4e6d61d8) @1
%d8b92a92d74d = x(4) @0
amo('add', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %343b4e6d61d8) @1
