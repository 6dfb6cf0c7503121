c000202f
%32f3937b2d7d = sext(64, 32, %ceabd843940f)
%394262ad50d4 = set_x(0, %32f3937b2d7d) @1
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%ceabd843940f = amo('minu', 32, %498030703cb1, %e8b6c0f30a84) @0
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('minu', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %32f3937b2d7d) @1

c7ffafaf
%7198bff5cf0c = set_x(31, %b2ff6191e7c2) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%b2ff6191e7c2 = sext(64, 32, %ef91d7a1e3eb)
%ef91d7a1e3eb = amo('minu', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('minu', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %b2ff6191e7c2) @1

c555252f
%1138a97ecfe6 = sext(64, 32, %367fe74ae70b)
%367fe74ae70b = amo('minu', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%d7d1b5e24308 = x(21) @0
%e7874f726192 = set_x(10, %1138a97ecfe6) @1
%fdc90ec243aa = x(10) @0
amo('minu', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %1138a97ecfe6) @1

c2aaaaaf
%1ca19cf6ca3a = set_x(21, %dad7c5cb5a4b) @1
%d7d1b5e24308 = x(21) @0
%dad7c5cb5a4b = sext(64, 32, %f308460d77fd)
%f308460d77fd = amo('minu', 32, %d7d1b5e24308, %f58602b22672) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('minu', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %dad7c5cb5a4b) @1

c041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%624de956641e = amo('minu', 32, %92512cea6f4a, %01d063253359) @0
%7821b810e91c = set_x(16, %7ecffe5ba97d) @1
%7ecffe5ba97d = sext(64, 32, %624de956641e)
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
amo('minu', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %7ecffe5ba97d) @1
