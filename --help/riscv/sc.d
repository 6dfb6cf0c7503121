1800302f
%398447dfdd82 = set_x(0, %a2158d96d3dd) @1
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%a2158d96d3dd = store_conditional(64, %498030703cb1, %498030703cb1) @0
store_conditional(64, %498030703cb1, %498030703cb1) @0
set_x(0, %a2158d96d3dd) @1

1fffbfaf
%41b57b0dafb5 = store_conditional(64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%7132b3cfb5e3 = set_x(31, %41b57b0dafb5) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
store_conditional(64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %41b57b0dafb5) @1

1d55352f
%5b43ac46872a = store_conditional(64, %fdc90ec243aa, %d7d1b5e24308) @0
%c62507b5e020 = set_x(10, %5b43ac46872a) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
store_conditional(64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %5b43ac46872a) @1

1aaabaaf
%07f2b38560d3 = set_x(21, %d0dee9ec6660) @1
%d0dee9ec6660 = store_conditional(64, %d7d1b5e24308, %fdc90ec243aa) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
store_conditional(64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %d0dee9ec6660) @1

1841382f
%241c3ae97c76 = store_conditional(64, %92512cea6f4a, %d8b92a92d74d) @0
%538cc3739c2f = set_x(16, %241c3ae97c76) @1
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
store_conditional(64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %241c3ae97c76) @1
