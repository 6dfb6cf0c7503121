c0300053
%167d32afb3dd = f_to_int(64, False, 's', %f56750cb512d, 0)
%d262f7e8524f = set_x(0, %167d32afb3dd) @0
%f56750cb512d = f(0, 's') @0
set_x(0, %167d32afb3dd) @0

c03fffd3
%2e56a71cd883 = f_to_int(64, False, 's', %ed7baf56b306, 7)
%e0287b4b4e8a = set_x(31, %2e56a71cd883) @0
%ed7baf56b306 = f(31, 's') @0
set_x(31, %2e56a71cd883) @0

c0355553
%1e17debbbf1d = f_to_int(64, False, 's', %312ccb93ac0b, 5)
%312ccb93ac0b = f(10, 's') @0
%5bb9ad30fb28 = set_x(10, %1e17debbbf1d) @0
set_x(10, %1e17debbbf1d) @0

c03aaad3
%537af8fb2a7c = f_to_int(64, False, 's', %ede313efa50c, 2)
%c330657d573e = set_x(21, %537af8fb2a7c) @0
%ede313efa50c = f(21, 's') @0
set_x(21, %537af8fb2a7c) @0

c0310853
%030fe6ec5230 = f(2, 's') @0
%284e48d8f30b = f_to_int(64, False, 's', %030fe6ec5230, 0)
%65f2b224bc6c = set_x(16, %284e48d8f30b) @0
set_x(16, %284e48d8f30b) @0
