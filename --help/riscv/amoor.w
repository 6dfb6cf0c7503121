4000202f
%270d9b8c7d75 = amo('or', 32, %498030703cb1, %e8b6c0f30a84) @0
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%b26ee4a6a93e = set_x(0, %b4fa5bb3d3a2) @1
%b4fa5bb3d3a2 = sext(64, 32, %270d9b8c7d75)
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('or', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %b4fa5bb3d3a2) @1

47ffafaf
%1d53dacfe0a5 = sext(64, 32, %3ec27bc9254c)
%3ec27bc9254c = amo('or', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%bf2f2d76a269 = set_x(31, %1d53dacfe0a5) @1
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('or', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %1d53dacfe0a5) @1

4555252f
%1bdf15f50c4d = amo('or', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%d7d1b5e24308 = x(21) @0
%e25a87223a2f = set_x(10, %fc08a2488d98) @1
%fc08a2488d98 = sext(64, 32, %1bdf15f50c4d)
%fdc90ec243aa = x(10) @0
amo('or', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %fc08a2488d98) @1

42aaaaaf
%4bee11fd9e10 = sext(64, 32, %97f87e68ded9)
%97f87e68ded9 = amo('or', 32, %d7d1b5e24308, %f58602b22672) @0
%a5ee1f5fe5bc = set_x(21, %4bee11fd9e10) @1
%d7d1b5e24308 = x(21) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('or', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %4bee11fd9e10) @1

4041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%15c10b54bc2b = set_x(16, %823912dc9e7a) @1
%823912dc9e7a = sext(64, 32, %869b780cd7ff)
%869b780cd7ff = amo('or', 32, %92512cea6f4a, %01d063253359) @0
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
amo('or', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %823912dc9e7a) @1
