42000053
%7ca1e2327f3c = f_to_f('d', 's', %f56750cb512d, 0)
%bd292fd1207d = set_f(0, 'd', %7ca1e2327f3c) @0
%f56750cb512d = f(0, 's') @0
set_f(0, 'd', %7ca1e2327f3c) @0

420fffd3
%15005fdd858a = set_f(31, 'd', %3449514cd7af) @0
%3449514cd7af = f_to_f('d', 's', %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
set_f(31, 'd', %3449514cd7af) @0

42055553
%312ccb93ac0b = f(10, 's') @0
%ead6d46418bd = f_to_f('d', 's', %312ccb93ac0b, 5)
%fee574589558 = set_f(10, 'd', %ead6d46418bd) @0
set_f(10, 'd', %ead6d46418bd) @0

420aaad3
%363bbbf40f88 = set_f(21, 'd', %b752135f6cde) @0
%b752135f6cde = f_to_f('d', 's', %ede313efa50c, 2)
%ede313efa50c = f(21, 's') @0
set_f(21, 'd', %b752135f6cde) @0

42010853
%030fe6ec5230 = f(2, 's') @0
%65116352037e = f_to_f('d', 's', %030fe6ec5230, 0)
%fd70765ba2bc = set_f(16, 'd', %65116352037e) @0
set_f(16, 'd', %65116352037e) @0
