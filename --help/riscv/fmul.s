10000053
%24a9576c2d8e = fmul('s', %f56750cb512d, %f56750cb512d, 0)
%f23554bc0a67 = set_f(0, 's', %24a9576c2d8e) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_f(0, 's', %24a9576c2d8e) @0

11ffffd3
%3416a8c2053c = set_f(31, 's', %f483bbc95f2a) @0
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%f483bbc95f2a = fmul('s', %ed7baf56b306, %ed7baf56b306, 7)
set_f(31, 's', %f483bbc95f2a) @0

11555553
%0eddb4e31f86 = set_f(10, 's', %93a351778a20) @0
%312ccb93ac0b = f(10, 's') @0
%93a351778a20 = fmul('s', %312ccb93ac0b, %ede313efa50c, 5)
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %93a351778a20) @0

10aaaad3
%312ccb93ac0b = f(10, 's') @0
%544566ca4d9b = set_f(21, 's', %858815bb9bea) @0
%858815bb9bea = fmul('s', %ede313efa50c, %312ccb93ac0b, 2)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %858815bb9bea) @0

10410853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%105674960f13 = set_f(16, 's', %c9a7bcc9bca1) @0
%c9a7bcc9bca1 = fmul('s', %030fe6ec5230, %002ad5caeb19, 0)
set_f(16, 's', %c9a7bcc9bca1) @0
