28001053
%9d19dd6adf13 = set_f(0, 's', %f5e4d5d60542) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%f5e4d5d60542 = fmax('s', %f56750cb512d, %f56750cb512d)
set_f(0, 's', %f5e4d5d60542) @0

29ff9fd3
%5d0d8d0272c3 = set_f(31, 's', %e68f607a2862) @0
%e68f607a2862 = fmax('s', %ed7baf56b306, %ed7baf56b306)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %e68f607a2862) @0

29551553
%312ccb93ac0b = f(10, 's') @0
%50d743bcea0d = set_f(10, 's', %889441e9e379) @0
%889441e9e379 = fmax('s', %312ccb93ac0b, %ede313efa50c)
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %889441e9e379) @0

28aa9ad3
%312ccb93ac0b = f(10, 's') @0
%61398e1ddbf3 = set_f(21, 's', %a25d00e75ae4) @0
%a25d00e75ae4 = fmax('s', %ede313efa50c, %312ccb93ac0b)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %a25d00e75ae4) @0

28411853
%002854ed2abb = fmax('s', %030fe6ec5230, %002ad5caeb19)
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%430e271a7141 = set_f(16, 's', %002854ed2abb) @0
set_f(16, 's', %002854ed2abb) @0
