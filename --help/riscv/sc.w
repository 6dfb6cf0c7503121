1800202f
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%95f69239b0e7 = store_conditional(32, %498030703cb1, %e8b6c0f30a84) @0
%e8b6c0f30a84 = trunc(32, 64, %498030703cb1)
%f445cf279fd2 = set_x(0, %95f69239b0e7) @1
store_conditional(32, %498030703cb1, %e8b6c0f30a84) @0
set_x(0, %95f69239b0e7) @1

1fffafaf
%16973e72f9bd = store_conditional(32, %ad2c4153cfa8, %f281aaa11e70) @0
%26ce84f81f1e = set_x(31, %16973e72f9bd) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%f281aaa11e70 = trunc(32, 64, %ad2c4153cfa8)
store_conditional(32, %ad2c4153cfa8, %f281aaa11e70) @0
set_x(31, %16973e72f9bd) @1

1d55252f
%50451b819305 = store_conditional(32, %fdc90ec243aa, %86cfa81de3e3) @0
%86cfa81de3e3 = trunc(32, 64, %d7d1b5e24308)
%d7d1b5e24308 = x(21) @0
%f0fd489cfeed = set_x(10, %50451b819305) @1
%fdc90ec243aa = x(10) @0
store_conditional(32, %fdc90ec243aa, %86cfa81de3e3) @0
set_x(10, %50451b819305) @1

1aaaaaaf
%aa27bc1423b9 = store_conditional(32, %d7d1b5e24308, %f58602b22672) @0
%d2aa2416fad2 = set_x(21, %aa27bc1423b9) @1
%d7d1b5e24308 = x(21) @0
%f58602b22672 = trunc(32, 64, %fdc90ec243aa)
%fdc90ec243aa = x(10) @0
store_conditional(32, %d7d1b5e24308, %f58602b22672) @0
set_x(21, %aa27bc1423b9) @1

1841282f
%01d063253359 = trunc(32, 64, %d8b92a92d74d)
%6bd3320951c4 = store_conditional(32, %92512cea6f4a, %01d063253359) @0
%92512cea6f4a = x(2) @0
%9270a3213132 = set_x(16, %6bd3320951c4) @1
%d8b92a92d74d = x(4) @0
store_conditional(32, %92512cea6f4a, %01d063253359) @0
set_x(16, %6bd3320951c4) @1
