e000202f
%30c281e09343 = sext(64, 32, %bb8cec17a63b)
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%6648c90b9e64 = set_x(0, %30c281e09343) @1
%bb8cec17a63b = amo('maxu', 32, %498030703cb1, %e8b6c0f30a84) @0
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('maxu', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %30c281e09343) @1

e7ffafaf
%071c2d7520b2 = set_x(31, %61daaea6bc61) @1
%23dac015f974 = amo('maxu', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%61daaea6bc61 = sext(64, 32, %23dac015f974)
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('maxu', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %61daaea6bc61) @1

e555252f
%68769d4679dd = sext(64, 32, %e0eb2f6a13bb)
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%a321e7ec44f3 = set_x(10, %68769d4679dd) @1
%d7d1b5e24308 = x(21) @0
%e0eb2f6a13bb = amo('maxu', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%fdc90ec243aa = x(10) @0
amo('maxu', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %68769d4679dd) @1

e2aaaaaf
%178ae2104a86 = sext(64, 32, %f5e3e33f84ab)
%a706eda5e58b = set_x(21, %178ae2104a86) @1
%d7d1b5e24308 = x(21) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%f5e3e33f84ab = amo('maxu', 32, %d7d1b5e24308, %f58602b22672) @0
%fdc90ec243aa = x(10) @0
amo('maxu', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %178ae2104a86) @1

e041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%2d920dee5791 = amo('maxu', 32, %92512cea6f4a, %01d063253359) @0
%92512cea6f4a = x(2) @0
%d3d3584b4e66 = set_x(16, %f8ce2047adf2) @1
%d8b92a92d74d = x(4) @0
%f8ce2047adf2 = sext(64, 32, %2d920dee5791)
amo('maxu', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %f8ce2047adf2) @1
