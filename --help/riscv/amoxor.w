2000202f
%07566c824a04 = amo('xor', 32, %498030703cb1, %e8b6c0f30a84) @0
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%81d66ab2ada7 = sext(64, 32, %07566c824a04)
%913feed30b60 = set_x(0, %81d66ab2ada7) @1
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('xor', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %81d66ab2ada7) @1

27ffafaf
%2fd3382b0dd0 = amo('xor', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%7d77c139e450 = set_x(31, %d620f5271089) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%d620f5271089 = sext(64, 32, %2fd3382b0dd0)
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('xor', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %d620f5271089) @1

2555252f
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%a0d930a1ddd8 = set_x(10, %b046191720d4) @1
%b046191720d4 = sext(64, 32, %c507ce90bee1)
%c507ce90bee1 = amo('xor', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('xor', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %b046191720d4) @1

22aaaaaf
%9d3da71ec415 = amo('xor', 32, %d7d1b5e24308, %f58602b22672) @0
%b43ceef51c17 = set_x(21, %c8ad4d47f06f) @1
%c8ad4d47f06f = sext(64, 32, %9d3da71ec415)
%d7d1b5e24308 = x(21) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('xor', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %c8ad4d47f06f) @1

2041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%601662c401eb = sext(64, 32, %95587c4186f3)
%92512cea6f4a = x(2) @0
%95587c4186f3 = amo('xor', 32, %92512cea6f4a, %01d063253359) @0
%d8b92a92d74d = x(4) @0
%e0d8c826e7bc = set_x(16, %601662c401eb) @1
amo('xor', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %601662c401eb) @1
