e0001053
%6ba1f25356db = set_x(0, %94c6a39ac141) @0
%94c6a39ac141 = fclass('s', %f56750cb512d)
%f56750cb512d = f(0, 's') @0
set_x(0, %94c6a39ac141) @0

e00f9fd3
%3393df351457 = fclass('s', %ed7baf56b306)
%c15eb7857703 = set_x(31, %3393df351457) @0
%ed7baf56b306 = f(31, 's') @0
set_x(31, %3393df351457) @0

e0051553
%194391955e9b = set_x(10, %6765edc58a80) @0
%312ccb93ac0b = f(10, 's') @0
%6765edc58a80 = fclass('s', %312ccb93ac0b)
set_x(10, %6765edc58a80) @0

e00a9ad3
%042dc9506537 = fclass('s', %ede313efa50c)
%bf950cba6715 = set_x(21, %042dc9506537) @0
%ede313efa50c = f(21, 's') @0
set_x(21, %042dc9506537) @0

e0011853
%030fe6ec5230 = f(2, 's') @0
%0817a8937636 = set_x(16, %75f8454ea24b) @0
%75f8454ea24b = fclass('s', %030fe6ec5230)
set_x(16, %75f8454ea24b) @0
