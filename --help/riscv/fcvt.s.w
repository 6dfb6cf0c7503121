d0000053
%2a34e074b662 = int_to_f('s', 32, True, %e8b6c0f30a84, 0)
%498030703cb1 = x(0) @0
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
%ef488e7345d6 = set_f(0, 's', %2a34e074b662) @0
set_f(0, 's', %2a34e074b662) @0

d00fffd3
%5037e4b61b7a = set_f(31, 's', %b8a1c132c81e) @0
%ad2c4153cfa8 = x(31) @0
%b8a1c132c81e = int_to_f('s', 32, True, %f281aaa11e70, 7)
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
set_f(31, 's', %b8a1c132c81e) @0

d0055553
%a5d74c6a35f7 = set_f(10, 's', %c318068de438) @0
%c318068de438 = int_to_f('s', 32, True, %f58602b22672, 5)
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
set_f(10, 's', %c318068de438) @0

d00aaad3
%5faf0a40b43b = set_f(21, 's', %c8c26e6bd9a4) @0
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%c8c26e6bd9a4 = int_to_f('s', 32, True, %86cfa81de3e3, 2)
%d7d1b5e24308 = x(21) @0
set_f(21, 's', %c8c26e6bd9a4) @0

d0010853
%0ab194a0cede = int_to_f('s', 32, True, %51f77399eb89, 0)
%51f77399eb89 = trunc(32, 64, %92512cea6f4a)
%92512cea6f4a = x(2) @0
%c2b7605d9548 = set_f(16, 's', %0ab194a0cede) @0
set_f(16, 's', %0ab194a0cede) @0
