18000053
%46947547b7d2 = fdiv('s', %f56750cb512d, %f56750cb512d, 0)
%b360c7e718e3 = set_f(0, 's', %46947547b7d2) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_f(0, 's', %46947547b7d2) @0

19ffffd3
%32d82e903418 = set_f(31, 's', %94fd06d08258) @0
%94fd06d08258 = fdiv('s', %ed7baf56b306, %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %94fd06d08258) @0

19555553
%312ccb93ac0b = f(10, 's') @0
%6edc22bf4106 = set_f(10, 's', %fbdfcf31b9b0) @0
%ede313efa50c = f(21, 's') @0
%fbdfcf31b9b0 = fdiv('s', %312ccb93ac0b, %ede313efa50c, 5)
set_f(10, 's', %fbdfcf31b9b0) @0

18aaaad3
%312ccb93ac0b = f(10, 's') @0
%a6d9bb0f3b87 = fdiv('s', %ede313efa50c, %312ccb93ac0b, 2)
%c8a06de2338c = set_f(21, 's', %a6d9bb0f3b87) @0
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %a6d9bb0f3b87) @0

18410853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%7ef0162524d0 = fdiv('s', %030fe6ec5230, %002ad5caeb19, 0)
%f535ee1d6fe6 = set_f(16, 's', %7ef0162524d0) @0
set_f(16, 's', %7ef0162524d0) @0
