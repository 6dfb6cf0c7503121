1000302f
%3b8a8c593a2e = load_reserved(64, %498030703cb1) @0
%498030703cb1 = x(0) @0
%4c48e7f125a7 = set_x(0, %3b8a8c593a2e) @1
load_reserved(64, %498030703cb1) @0
set_x(0, %3b8a8c593a2e) @1

160fbfaf
%1063af11e37a = load_reserved(64, %ad2c4153cfa8) @0
%ad2c4153cfa8 = x(31) @0
%f238f3bdfc1f = set_x(31, %1063af11e37a) @1
load_reserved(64, %ad2c4153cfa8) @0
set_x(31, %1063af11e37a) @1

1405352f
%42bce087f06d = set_x(10, %5a60fff3ddbd) @1
%5a60fff3ddbd = load_reserved(64, %fdc90ec243aa) @0
%fdc90ec243aa = x(10) @0
load_reserved(64, %fdc90ec243aa) @0
set_x(10, %5a60fff3ddbd) @1

120abaaf
%26abb810392c = set_x(21, %cbacb3e957a2) @1
%cbacb3e957a2 = load_reserved(64, %d7d1b5e24308) @0
%d7d1b5e24308 = x(21) @0
load_reserved(64, %d7d1b5e24308) @0
set_x(21, %cbacb3e957a2) @1

1001382f
%88826bb67036 = load_reserved(64, %92512cea6f4a) @0
%92512cea6f4a = x(2) @0
%df1d46297a32 = set_x(16, %88826bb67036) @1
load_reserved(64, %92512cea6f4a) @0
set_x(16, %88826bb67036) @1
