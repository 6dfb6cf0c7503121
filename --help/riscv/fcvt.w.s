c0000053
%4a5c65f1f44a = set_x(0, %679258a15ab6) @0
%4f1dac7cb126 = f_to_int(32, True, 's', %f56750cb512d, 0)
%679258a15ab6 = sext(64, 32, %4f1dac7cb126)
%f56750cb512d = f(0, 's') @0
set_x(0, %679258a15ab6) @0

c00fffd3
%91bc10a3bbb7 = set_x(31, %952044a744cb) @0
%952044a744cb = sext(64, 32, %d4c083434ea0)
%d4c083434ea0 = f_to_int(32, True, 's', %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
set_x(31, %952044a744cb) @0

c0055553
%312ccb93ac0b = f(10, 's') @0
%59b96d98d476 = f_to_int(32, True, 's', %312ccb93ac0b, 5)
%f4f449cb52b1 = set_x(10, %fd6de85d26b8) @0
%fd6de85d26b8 = sext(64, 32, %59b96d98d476)
set_x(10, %fd6de85d26b8) @0

c00aaad3
%2f87ae79718a = f_to_int(32, True, 's', %ede313efa50c, 2)
%73672a2639f4 = set_x(21, %aef55712f6d1) @0
%aef55712f6d1 = sext(64, 32, %2f87ae79718a)
%ede313efa50c = f(21, 's') @0
set_x(21, %aef55712f6d1) @0

c0010853
%030fe6ec5230 = f(2, 's') @0
%24d16ebe3d5e = set_x(16, %c96747d5062e) @0
%acda99f11141 = f_to_int(32, True, 's', %030fe6ec5230, 0)
%c96747d5062e = sext(64, 32, %acda99f11141)
set_x(16, %c96747d5062e) @0
