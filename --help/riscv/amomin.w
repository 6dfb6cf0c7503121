8000202f
%0c40451b0288 = set_x(0, %30ffdc8aa327) @1
%30ffdc8aa327 = sext(64, 32, %c343d5a28e5e)
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%c343d5a28e5e = amo('min', 32, %498030703cb1, %e8b6c0f30a84) @0
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('min', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %30ffdc8aa327) @1

87ffafaf
%0a3d940b6609 = sext(64, 32, %7578c04ee08c)
%7578c04ee08c = amo('min', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%ec753c1dd804 = set_x(31, %0a3d940b6609) @1
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('min', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %0a3d940b6609) @1

8555252f
%6597d518798a = set_x(10, %f418ff874334) @1
%6a85031a3b7a = amo('min', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%d7d1b5e24308 = x(21) @0
%f418ff874334 = sext(64, 32, %6a85031a3b7a)
%fdc90ec243aa = x(10) @0
amo('min', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %f418ff874334) @1

82aaaaaf
%4091a9727556 = amo('min', 32, %d7d1b5e24308, %f58602b22672) @0
%88fe52745964 = sext(64, 32, %4091a9727556)
%d7d1b5e24308 = x(21) @0
%d8f862b588ca = set_x(21, %88fe52745964) @1
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('min', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %88fe52745964) @1

8041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%5c951d6106ba = amo('min', 32, %92512cea6f4a, %01d063253359) @0
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
%e39e9300a2f0 = sext(64, 32, %5c951d6106ba)
%f3e30be0f78f = set_x(16, %e39e9300a2f0) @1
amo('min', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %e39e9300a2f0) @1
