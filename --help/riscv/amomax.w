a000202f
%2ce5a78fe6c6 = sext(64, 32, %36f8fd810666)
%36f8fd810666 = amo('max', 32, %498030703cb1, %e8b6c0f30a84) @0
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%8e5aa5568e8c = set_x(0, %2ce5a78fe6c6) @1
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
amo('max', 32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %2ce5a78fe6c6) @1

a7ffafaf
%1cf538fb3a8f = amo('max', 32, %ad2c4153cfa8, %f281aaa11e70) @0
%9580c9e265fc = sext(64, 32, %1cf538fb3a8f)
%9c9b09b19078 = set_x(31, %9580c9e265fc) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
amo('max', 32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %9580c9e265fc) @1

a555252f
%0043749c1383 = sext(64, 32, %1765d2b9926b)
%1765d2b9926b = amo('max', 32, %fdc90ec243aa, %86cfa81de3e3) @0
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%986d8c8368b0 = set_x(10, %0043749c1383) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('max', 32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %0043749c1383) @1

a2aaaaaf
%409026d7781d = amo('max', 32, %d7d1b5e24308, %f58602b22672) @0
%c2af639425da = set_x(21, %d586846ed6fc) @1
%d586846ed6fc = sext(64, 32, %409026d7781d)
%d7d1b5e24308 = x(21) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
amo('max', 32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %d586846ed6fc) @1

a041282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%103e6d71f539 = sext(64, 32, %63038bea97c2)
%36e1bbb7c791 = set_x(16, %103e6d71f539) @1
%63038bea97c2 = amo('max', 32, %92512cea6f4a, %01d063253359) @0
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
amo('max', 32, %92512cea6f4a, %01d063253359) @0
set_x(16, %103e6d71f539) @1
