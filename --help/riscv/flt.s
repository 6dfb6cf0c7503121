a0001053
%2dffce3e6b94 = set_x(0, %bc69ec541429) @0
%bc69ec541429 = zext(64, 1, %d2ace15f72d6)
%d2ace15f72d6 = flt('s', %f56750cb512d, %f56750cb512d)
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_x(0, %bc69ec541429) @0

a1ff9fd3
%4df879f86701 = set_x(31, %a6a29a59245b) @0
%a6a29a59245b = zext(64, 1, %f12bf0c11c03)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%f12bf0c11c03 = flt('s', %ed7baf56b306, %ed7baf56b306)
set_x(31, %a6a29a59245b) @0

a1551553
%312ccb93ac0b = f(10, 's') @0
%6310381a0ef1 = set_x(10, %a76fbcc99361) @0
%a76fbcc99361 = zext(64, 1, %ed17a44157c1)
%ed17a44157c1 = flt('s', %312ccb93ac0b, %ede313efa50c)
%ede313efa50c = f(21, 's') @0
set_x(10, %a76fbcc99361) @0

a0aa9ad3
%10caa8912b09 = flt('s', %ede313efa50c, %312ccb93ac0b)
%312ccb93ac0b = f(10, 's') @0
%34770a5b45b7 = zext(64, 1, %10caa8912b09)
%a49296498991 = set_x(21, %34770a5b45b7) @0
%ede313efa50c = f(21, 's') @0
set_x(21, %34770a5b45b7) @0

a0411853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%7277292433e1 = zext(64, 1, %f42003d2d6a1)
%742bb604ba09 = set_x(16, %7277292433e1) @0
%f42003d2d6a1 = flt('s', %030fe6ec5230, %002ad5caeb19)
set_x(16, %7277292433e1) @0
