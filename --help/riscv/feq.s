a0002053
%013e3a817947 = set_x(0, %9e2422fcc1c4) @0
%9e2422fcc1c4 = zext(64, 1, %adcc8c02299f)
%adcc8c02299f = feq('s', %f56750cb512d, %f56750cb512d)
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_x(0, %9e2422fcc1c4) @0

a1ffafd3
%247474e0c744 = feq('s', %ed7baf56b306, %ed7baf56b306)
%a56c460d48d5 = zext(64, 1, %247474e0c744)
%d87c79592e2e = set_x(31, %a56c460d48d5) @0
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_x(31, %a56c460d48d5) @0

a1552553
%312ccb93ac0b = f(10, 's') @0
%9173a4f388c7 = set_x(10, %b500da139637) @0
%b500da139637 = zext(64, 1, %bba50484bb9b)
%bba50484bb9b = feq('s', %312ccb93ac0b, %ede313efa50c)
%ede313efa50c = f(21, 's') @0
set_x(10, %b500da139637) @0

a0aaaad3
%312ccb93ac0b = f(10, 's') @0
%7a7186235d0d = zext(64, 1, %94243afcec12)
%92c7884c62ec = set_x(21, %7a7186235d0d) @0
%94243afcec12 = feq('s', %ede313efa50c, %312ccb93ac0b)
%ede313efa50c = f(21, 's') @0
set_x(21, %7a7186235d0d) @0

a0412853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%0d4cf9d42e25 = zext(64, 1, %f90147f5d3f3)
%1fac5632dd76 = set_x(16, %0d4cf9d42e25) @0
%f90147f5d3f3 = feq('s', %030fe6ec5230, %002ad5caeb19)
set_x(16, %0d4cf9d42e25) @0
