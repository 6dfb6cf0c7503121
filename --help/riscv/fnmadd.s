0000004f
%88cda6573739 = fma('s', %fc54022fc2cb, %f56750cb512d, %fc54022fc2cb, 0)
%b4e84832f01c = set_f(0, 's', %88cda6573739) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%fc54022fc2cb = fneg('s', %f56750cb512d)
%fc54022fc2cb = fneg('s', %f56750cb512d)
set_f(0, 's', %88cda6573739) @0

f9ffffcf
%17ebef7ee2b7 = set_f(31, 's', %da71225418f7) @0
%1bd2fa8398e8 = fneg('s', %ed7baf56b306)
%1bd2fa8398e8 = fneg('s', %ed7baf56b306)
%da71225418f7 = fma('s', %1bd2fa8398e8, %ed7baf56b306, %1bd2fa8398e8, 7)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %da71225418f7) @0

5155554f
%0b70ce7c812d = set_f(10, 's', %c44c2e21538e) @0
%312ccb93ac0b = f(10, 's') @0
%312ccb93ac0b = f(10, 's') @0
%c44c2e21538e = fma('s', %e062929ee174, %ede313efa50c, %e062929ee174, 5)
%e062929ee174 = fneg('s', %312ccb93ac0b)
%e062929ee174 = fneg('s', %312ccb93ac0b)
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %c44c2e21538e) @0

a8aaaacf
%2f616a056c19 = fma('s', %40122fc170a3, %312ccb93ac0b, %40122fc170a3, 2)
%312ccb93ac0b = f(10, 's') @0
%40122fc170a3 = fneg('s', %ede313efa50c)
%40122fc170a3 = fneg('s', %ede313efa50c)
%d2b4e6d3397b = set_f(21, 's', %2f616a056c19) @0
%ede313efa50c = f(21, 's') @0
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %2f616a056c19) @0

0841084f
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%12a6270aecb2 = f(1, 's') @0
%14c6448428b2 = fneg('s', %12a6270aecb2)
%718fb9bf1c84 = fma('s', %aeffbcc48a30, %002ad5caeb19, %14c6448428b2, 0)
%a5a33eb78c2b = set_f(16, 's', %718fb9bf1c84) @0
%aeffbcc48a30 = fneg('s', %030fe6ec5230)
set_f(16, 's', %718fb9bf1c84) @0
