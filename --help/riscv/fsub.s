08000053
%5e39c0658b74 = fsub('s', %f56750cb512d, %f56750cb512d, 0)
%b509ab15a2e2 = set_f(0, 's', %5e39c0658b74) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_f(0, 's', %5e39c0658b74) @0

09ffffd3
%2f58eab36de3 = set_f(31, 's', %b8f1313668cb) @0
%b8f1313668cb = fsub('s', %ed7baf56b306, %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %b8f1313668cb) @0

09555553
%312ccb93ac0b = f(10, 's') @0
%5313107c42fd = fsub('s', %312ccb93ac0b, %ede313efa50c, 5)
%b682c9a773fc = set_f(10, 's', %5313107c42fd) @0
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %5313107c42fd) @0

08aaaad3
%312ccb93ac0b = f(10, 's') @0
%78cfb6201368 = set_f(21, 's', %83f5921d4a36) @0
%83f5921d4a36 = fsub('s', %ede313efa50c, %312ccb93ac0b, 2)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %83f5921d4a36) @0

08410853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%5963b8bb8dee = set_f(16, 's', %cf4deb74b3ee) @0
%cf4deb74b3ee = fsub('s', %030fe6ec5230, %002ad5caeb19, 0)
set_f(16, 's', %cf4deb74b3ee) @0
