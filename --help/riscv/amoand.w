6000202f
%0b0f06f7ca36 = set_x(0, %5c5024cef628) @1
%48ac4b7ed848 = amo('and', 32, %498030703cb1, %e8b6c0f30a84) @0
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%5c5024cef628 = sext(64, 32, %48ac4b7ed848)
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('and', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %5c5024cef628) @1

67ffafaf
%367dd7fbbad8 = set_x(31, %c9e4b33d6d2a) @1
%54183522fea0 = amo('and', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%c9e4b33d6d2a = sext(64, 32, %54183522fea0)
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('and', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %c9e4b33d6d2a) @1

6555252f
%03fd39337921 = amo('and', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%662200b199c3 = sext(64, 32, %03fd39337921)
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%8e322025185d = set_x(10, %662200b199c3) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('and', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %662200b199c3) @1

62aaaaaf
%2e92c3aeb8a7 = amo('and', 32, %d7d1b5e24308, %f58602b22672) @0
%89f909ada244 = sext(64, 32, %2e92c3aeb8a7)
%aeadd103d820 = set_x(21, %89f909ada244) @1
%d7d1b5e24308 = x(21) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('and', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %89f909ada244) @1

6041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%1c275aab8676 = amo('and', 32, %92512cea6f4a, %01d063253359) @0
%92512cea6f4a = x(2) @0
%c814e810cf3f = set_x(16, %ed9e8d8a13e0) @1
%d8b92a92d74d = x(4) @0
%ed9e8d8a13e0 = sext(64, 32, %1c275aab8676)
amo('and', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %ed9e8d8a13e0) @1
