00000053
%221d6e74e95e = set_f(0, 's', %f55bc0700356) @0
%f55bc0700356 = fadd('s', %f56750cb512d, %f56750cb512d, 0)
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_f(0, 's', %f55bc0700356) @0

01ffffd3
%d04a846abfc2 = set_f(31, 's', %ebffbc9c181e) @0
%ebffbc9c181e = fadd('s', %ed7baf56b306, %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %ebffbc9c181e) @0

01555553
%312ccb93ac0b = f(10, 's') @0
%6c698798964e = fadd('s', %312ccb93ac0b, %ede313efa50c, 5)
%a252db6d1d5a = set_f(10, 's', %6c698798964e) @0
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %6c698798964e) @0

00aaaad3
%029271d78b64 = set_f(21, 's', %c65e4da45fab) @0
%312ccb93ac0b = f(10, 's') @0
%c65e4da45fab = fadd('s', %ede313efa50c, %312ccb93ac0b, 2)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %c65e4da45fab) @0

00410853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%1bec01b5e63a = fadd('s', %030fe6ec5230, %002ad5caeb19, 0)
%b975f6b9dff4 = set_f(16, 's', %1bec01b5e63a) @0
set_f(16, 's', %1bec01b5e63a) @0
