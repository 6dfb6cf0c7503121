c0200053
%1a7bb91a9520 = f_to_int(64, True, 's', %f56750cb512d, 0)
%2273b963a8d1 = set_x(0, %1a7bb91a9520) @0
%f56750cb512d = f(0, 's') @0
set_x(0, %1a7bb91a9520) @0

c02fffd3
%7b6f3897d67d = set_x(31, %89f50463291f) @0
%89f50463291f = f_to_int(64, True, 's', %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
set_x(31, %89f50463291f) @0

c0255553
%312ccb93ac0b = f(10, 's') @0
%77ac123603b4 = set_x(10, %a1c6ad3959e5) @0
%a1c6ad3959e5 = f_to_int(64, True, 's', %312ccb93ac0b, 5)
set_x(10, %a1c6ad3959e5) @0

c02aaad3
%11895cc02f02 = set_x(21, %a2cdbb48ae3b) @0
%a2cdbb48ae3b = f_to_int(64, True, 's', %ede313efa50c, 2)
%ede313efa50c = f(21, 's') @0
set_x(21, %a2cdbb48ae3b) @0

c0210853
%030fe6ec5230 = f(2, 's') @0
%d1bca59e6f0f = f_to_int(64, True, 's', %030fe6ec5230, 0)
%ef0ed9426ce0 = set_x(16, %d1bca59e6f0f) @0
set_x(16, %d1bca59e6f0f) @0
