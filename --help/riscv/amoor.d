4000302f
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%6b83f41865a7 = amo('or', 64, %498030703cb1, %498030703cb1) @0
%ef728bd8f72c = set_x(0, %6b83f41865a7) @1
amo('or', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %6b83f41865a7) @1

47ffbfaf
%81ca034a0280 = amo('or', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%94b81ab681ef = set_x(31, %81ca034a0280) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
amo('or', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %81ca034a0280) @1

4555352f
%7c79acf7f025 = set_x(10, %cfd6082841bc) @1
%cfd6082841bc = amo('or', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('or', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %cfd6082841bc) @1

42aabaaf
%382cfb4328d2 = amo('or', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%781a64af9a51 = set_x(21, %382cfb4328d2) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('or', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %382cfb4328d2) @1

4041382f
%92512cea6f4a = x(2) @0
%be0cbcbacac1 = set_x(16, %c19b0c105c9a) @1
%c19b0c105c9a = amo('or', 64, %92512cea6f4a, %d8b92a92d74d) @0
%d8b92a92d74d = x(4) @0
amo('or', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %c19b0c105c9a) @1
