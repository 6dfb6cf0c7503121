0800302f
%053d1c7c8643 = amo('swap', 64, %498030703cb1, %498030703cb1) @0
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%730f333d7ef9 = set_x(0, %053d1c7c8643) @1
amo('swap', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %053d1c7c8643) @1

0fffbfaf
%851d5ce1a9d3 = set_x(31, %e19f5cde6332) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%e19f5cde6332 = amo('swap', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
amo('swap', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %e19f5cde6332) @1

0d55352f
%43860793cafa = amo('swap', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%723c790a35a4 = set_x(10, %43860793cafa) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('swap', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %43860793cafa) @1

0aaabaaf
%34061684281f = set_x(21, %d578197923c9) @1
%d578197923c9 = amo('swap', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('swap', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %d578197923c9) @1

0841382f
%92512cea6f4a = x(2) @0
%c3f853016806 = set_x(16, %c80a688821c3) @1
%c80a688821c3 = amo('swap', 64, %92512cea6f4a, %d8b92a92d74d) @0
%d8b92a92d74d = x(4) @0
amo('swap', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %c80a688821c3) @1
