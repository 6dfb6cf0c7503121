d2000053
%498030703cb1 = x(0) @0
%53cfff680069 = int_to_f('d', 32, True, %e8b6c0f30a84, 0)
%60d4bc45e970 = set_f(0, 'd', %53cfff680069) @0
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
set_f(0, 'd', %53cfff680069) @0

d20fffd3
%ad2c4153cfa8 = x(31) @0
%c07e5acd7c77 = set_f(31, 'd', %fb53041afffa) @0
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
%fb53041afffa = int_to_f('d', 32, True, %f281aaa11e70, 7)
set_f(31, 'd', %fb53041afffa) @0

d2055553
%1c21248305a7 = set_f(10, 'd', %fc0f27b2534e) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fc0f27b2534e = int_to_f('d', 32, True, %f58602b22672, 5)
%fdc90ec243aa = x(10) @0
set_f(10, 'd', %fc0f27b2534e) @0

d20aaad3
%5e348c85ec9b = int_to_f('d', 32, True, %86cfa81de3e3, 2)
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%d0818a226364 = set_f(21, 'd', %5e348c85ec9b) @0
%d7d1b5e24308 = x(21) @0
set_f(21, 'd', %5e348c85ec9b) @0

d2010853
%18e9d08ce175 = set_f(16, 'd', %1cfb974486fd) @0
%1cfb974486fd = int_to_f('d', 32, True, %51f77399eb89, 0)
%51f77399eb89 = trunc(32, 64, %92512cea6f4a)
%92512cea6f4a = x(2) @0
set_f(16, 'd', %1cfb974486fd) @0
