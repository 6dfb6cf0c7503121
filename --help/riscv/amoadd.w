0000202f
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%67cb5d7d3a82 = amo('add', 32, %498030703cb1, %e8b6c0f30a84) @0
%a7cb037ad1c0 = sext(64, 32, %67cb5d7d3a82)
%dc55b1cbf454 = set_x(0, %a7cb037ad1c0) @1
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('add', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %a7cb037ad1c0) @1

07ffafaf
%1cc1aaab3569 = sext(64, 32, %f71c3e8c0eb0)
%2bb226cfdc4a = set_x(31, %1cc1aaab3569) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
%f71c3e8c0eb0 = amo('add', 32, %ad2c4153cfa8, %f281aaa11e70) @0
amo('add', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %1cc1aaab3569) @1

0555252f
%1805f29d014a = amo('add', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%1cc1db5e9cdc = set_x(10, %25626aab675b) @1
%25626aab675b = sext(64, 32, %1805f29d014a)
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('add', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %25626aab675b) @1

02aaaaaf
%51440664bdbb = set_x(21, %a5a026e8808f) @1
%a5a026e8808f = sext(64, 32, %f54d83d964be)
%d7d1b5e24308 = x(21) @0
%f54d83d964be = amo('add', 32, %d7d1b5e24308, %f58602b22672) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('add', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %a5a026e8808f) @1

0041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%0fb5de184c66 = sext(64, 32, %887ed9f95e35)
%39a3471d3eeb = set_x(16, %0fb5de184c66) @1
%887ed9f95e35 = amo('add', 32, %92512cea6f4a, %01d063253359) @0
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
amo('add', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %0fb5de184c66) @1
