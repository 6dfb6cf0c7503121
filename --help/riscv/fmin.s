28000053
%361f367cdc39 = fmin('s', %f56750cb512d, %f56750cb512d)
%62d7b1bc1f3f = set_f(0, 's', %361f367cdc39) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_f(0, 's', %361f367cdc39) @0

29ff8fd3
%6fc536db2893 = set_f(31, 's', %a1ea46f3b8e8) @0
%a1ea46f3b8e8 = fmin('s', %ed7baf56b306, %ed7baf56b306)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %a1ea46f3b8e8) @0

29550553
%312ccb93ac0b = f(10, 's') @0
%b95fea29ca79 = fmin('s', %312ccb93ac0b, %ede313efa50c)
%c730395f785c = set_f(10, 's', %b95fea29ca79) @0
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %b95fea29ca79) @0

28aa8ad3
%312ccb93ac0b = f(10, 's') @0
%851f33e191ed = set_f(21, 's', %e1d4fb7a32ae) @0
%e1d4fb7a32ae = fmin('s', %ede313efa50c, %312ccb93ac0b)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %e1d4fb7a32ae) @0

28410853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%5c673aa22721 = set_f(16, 's', %8612d92d141c) @0
%8612d92d141c = fmin('s', %030fe6ec5230, %002ad5caeb19)
set_f(16, 's', %8612d92d141c) @0
