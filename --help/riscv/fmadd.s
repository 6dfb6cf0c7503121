00000043
%38aed9ad9f89 = set_f(0, 's', %fecfbb0a91c6) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%fecfbb0a91c6 = fma('s', %f56750cb512d, %f56750cb512d, %f56750cb512d, 0)
set_f(0, 's', %fecfbb0a91c6) @0

f9ffffc3
%8e64fdec36b1 = set_f(31, 's', %cbefb813d962) @0
%cbefb813d962 = fma('s', %ed7baf56b306, %ed7baf56b306, %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %cbefb813d962) @0

51555543
%16139c9cc0cf = set_f(10, 's', %3090e13e93a7) @0
%3090e13e93a7 = fma('s', %312ccb93ac0b, %ede313efa50c, %312ccb93ac0b, 5)
%312ccb93ac0b = f(10, 's') @0
%312ccb93ac0b = f(10, 's') @0
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %3090e13e93a7) @0

a8aaaac3
%312ccb93ac0b = f(10, 's') @0
%399568b0d848 = fma('s', %ede313efa50c, %312ccb93ac0b, %ede313efa50c, 2)
%b936e55774b2 = set_f(21, 's', %399568b0d848) @0
%ede313efa50c = f(21, 's') @0
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %399568b0d848) @0

08410843
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%12a6270aecb2 = f(1, 's') @0
%1735e78dccae = fma('s', %030fe6ec5230, %002ad5caeb19, %12a6270aecb2, 0)
%23583816fc7a = set_f(16, 's', %1735e78dccae) @0
set_f(16, 's', %1735e78dccae) @0
