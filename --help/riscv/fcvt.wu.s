c0100053
%88484cc01691 = set_x(0, %987ddeffa559) @0
%987ddeffa559 = sext(64, 32, %f3adc139d20f)
%f3adc139d20f = f_to_int(32, False, 's', %f56750cb512d, 0)
%f56750cb512d = f(0, 's') @0
set_x(0, %987ddeffa559) @0

c01fffd3
%4fc40650506a = set_x(31, %c49dc1b8a71f) @0
%85d416771922 = f_to_int(32, False, 's', %ed7baf56b306, 7)
%c49dc1b8a71f = sext(64, 32, %85d416771922)
%ed7baf56b306 = f(31, 's') @0
set_x(31, %c49dc1b8a71f) @0

c0155553
%0e72e1006b47 = sext(64, 32, %3964dcf056e9)
%312ccb93ac0b = f(10, 's') @0
%3964dcf056e9 = f_to_int(32, False, 's', %312ccb93ac0b, 5)
%eff38565a325 = set_x(10, %0e72e1006b47) @0
set_x(10, %0e72e1006b47) @0

c01aaad3
%2b3dd6215279 = f_to_int(32, False, 's', %ede313efa50c, 2)
%3612387cd6e9 = set_x(21, %4700078c16d8) @0
%4700078c16d8 = sext(64, 32, %2b3dd6215279)
%ede313efa50c = f(21, 's') @0
set_x(21, %4700078c16d8) @0

c0110853
%030fe6ec5230 = f(2, 's') @0
%2aab490770d5 = set_x(16, %a660f234f49e) @0
%a660f234f49e = sext(64, 32, %c63a7f0f3d0f)
%c63a7f0f3d0f = f_to_int(32, False, 's', %030fe6ec5230, 0)
set_x(16, %a660f234f49e) @0
