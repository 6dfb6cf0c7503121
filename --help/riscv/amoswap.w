0800202f
%170abd9cccd9 = sext(64, 32, %def986b4e310)
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%d7beaa086c8f = set_x(0, %170abd9cccd9) @1
%def986b4e310 = amo('swap', 32, %498030703cb1, %e8b6c0f30a84) @0
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('swap', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %170abd9cccd9) @1

0fffafaf
%4a22cdf085f3 = amo('swap', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%da879800864c = set_x(31, %e332b0b0ab2c) @1
%e332b0b0ab2c = sext(64, 32, %4a22cdf085f3)
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('swap', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %e332b0b0ab2c) @1

0d55252f
%7c5f0ffcb107 = set_x(10, %810649437018) @1
%810649437018 = sext(64, 32, %9de47596f81f)
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%9de47596f81f = amo('swap', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('swap', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %810649437018) @1

0aaaaaaf
%137f0b2b6396 = sext(64, 32, %35fe1445849e)
%35fe1445849e = amo('swap', 32, %d7d1b5e24308, %f58602b22672) @0
%3f73f0ae527c = set_x(21, %137f0b2b6396) @1
%d7d1b5e24308 = x(21) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('swap', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %137f0b2b6396) @1

0841282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%8fd134857255 = sext(64, 32, %ba0668059aed)
%92512cea6f4a = x(2) @0
%ba0668059aed = amo('swap', 32, %92512cea6f4a, %01d063253359) @0
%cad8849e1aab = set_x(16, %8fd134857255) @1
%d8b92a92d74d = x(4) @0
amo('swap', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %8fd134857255) @1
