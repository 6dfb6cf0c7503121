00000047
%81c1ba28d8cd = fma('s', %f56750cb512d, %f56750cb512d, %fc54022fc2cb, 0)
%b74a412a9c34 = set_f(0, 's', %81c1ba28d8cd) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%fc54022fc2cb = fneg('s', %f56750cb512d)
set_f(0, 's', %81c1ba28d8cd) @0

f9ffffc7
%160cabb6a45c = set_f(31, 's', %e9cf68fdc2ac) @0
%1bd2fa8398e8 = fneg('s', %ed7baf56b306)
%e9cf68fdc2ac = fma('s', %ed7baf56b306, %ed7baf56b306, %1bd2fa8398e8, 7)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %e9cf68fdc2ac) @0

51555547
%312ccb93ac0b = f(10, 's') @0
%312ccb93ac0b = f(10, 's') @0
%5764f804f8e5 = fma('s', %312ccb93ac0b, %ede313efa50c, %e062929ee174, 5)
%e062929ee174 = fneg('s', %312ccb93ac0b)
%ede313efa50c = f(21, 's') @0
%f8eabd57d06f = set_f(10, 's', %5764f804f8e5) @0
set_f(10, 's', %5764f804f8e5) @0

a8aaaac7
%312ccb93ac0b = f(10, 's') @0
%40122fc170a3 = fneg('s', %ede313efa50c)
%8a129c0f2b91 = fma('s', %ede313efa50c, %312ccb93ac0b, %40122fc170a3, 2)
%98f6157ee61a = set_f(21, 's', %8a129c0f2b91) @0
%ede313efa50c = f(21, 's') @0
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %8a129c0f2b91) @0

08410847
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%12a6270aecb2 = f(1, 's') @0
%14c6448428b2 = fneg('s', %12a6270aecb2)
%2b64e1891953 = fma('s', %030fe6ec5230, %002ad5caeb19, %14c6448428b2, 0)
%eb425f863130 = set_f(16, 's', %2b64e1891953) @0
set_f(16, 's', %2b64e1891953) @0
