0000004b
%7ebd99df1cbb = set_f(0, 's', %f18ea946197e) @0
%f18ea946197e = fma('s', %fc54022fc2cb, %f56750cb512d, %f56750cb512d, 0)
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%fc54022fc2cb = fneg('s', %f56750cb512d)
set_f(0, 's', %f18ea946197e) @0

f9ffffcb
%1bd2fa8398e8 = fneg('s', %ed7baf56b306)
%38e887623190 = set_f(31, 's', %92662eab53ed) @0
%92662eab53ed = fma('s', %1bd2fa8398e8, %ed7baf56b306, %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %92662eab53ed) @0

5155554b
%312ccb93ac0b = f(10, 's') @0
%312ccb93ac0b = f(10, 's') @0
%336bf5059b7b = fma('s', %e062929ee174, %ede313efa50c, %312ccb93ac0b, 5)
%befe43ee01d2 = set_f(10, 's', %336bf5059b7b) @0
%e062929ee174 = fneg('s', %312ccb93ac0b)
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %336bf5059b7b) @0

a8aaaacb
%312ccb93ac0b = f(10, 's') @0
%40122fc170a3 = fneg('s', %ede313efa50c)
%7f19d77df0d7 = fma('s', %40122fc170a3, %312ccb93ac0b, %ede313efa50c, 2)
%ede313efa50c = f(21, 's') @0
%ede313efa50c = f(21, 's') @0
%fc9ac5dc0f4a = set_f(21, 's', %7f19d77df0d7) @0
set_f(21, 's', %7f19d77df0d7) @0

0841084b
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%072c7178afdc = set_f(16, 's', %cfee3dce817f) @0
%12a6270aecb2 = f(1, 's') @0
%aeffbcc48a30 = fneg('s', %030fe6ec5230)
%cfee3dce817f = fma('s', %aeffbcc48a30, %002ad5caeb19, %12a6270aecb2, 0)
set_f(16, 's', %cfee3dce817f) @0
