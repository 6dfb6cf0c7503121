6000302f
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%6dbc7e03f0f8 = amo('and', 64, %498030703cb1, %498030703cb1) @0
%79b1f6f1ddeb = set_x(0, %6dbc7e03f0f8) @1
amo('and', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %6dbc7e03f0f8) @1

67ffbfaf
%4ee808b2e701 = amo('and', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%c8868b338747 = set_x(31, %4ee808b2e701) @1
amo('and', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %4ee808b2e701) @1

6555352f
%d7d1b5e24308 = x(21) @0
%e6cc47da1d4b = set_x(10, %f56b685ca3a4) @1
%f56b685ca3a4 = amo('and', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%fdc90ec243aa = x(10) @0
amo('and', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %f56b685ca3a4) @1

62aabaaf
%5737a80dad87 = set_x(21, %b4837e864a0d) @1
%b4837e864a0d = amo('and', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('and', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %b4837e864a0d) @1

6041382f
%56155e8d6e04 = amo('and', 64, %92512cea6f4a, %d8b92a92d74d) @0
%8b4ce08460dc = set_x(16, %56155e8d6e04) @1
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
amo('and', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %56155e8d6e04) @1
