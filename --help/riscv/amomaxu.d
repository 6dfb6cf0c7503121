e000302f
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%55563509d7d1 = amo('maxu', 64, %498030703cb1, %498030703cb1) @0
%84be89df9dee = set_x(0, %55563509d7d1) @1
amo('maxu', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %55563509d7d1) @1

e7ffbfaf
%2625c74da746 = amo('maxu', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
%46b58bfa0793 = set_x(31, %2625c74da746) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
amo('maxu', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %2625c74da746) @1

e555352f
%bb729cf13a22 = amo('maxu', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%d7d1b5e24308 = x(21) @0
%d807608d6743 = set_x(10, %bb729cf13a22) @1
%fdc90ec243aa = x(10) @0
amo('maxu', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %bb729cf13a22) @1

e2aabaaf
%040a5c98629c = set_x(21, %61f7c5000212) @1
%61f7c5000212 = amo('maxu', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('maxu', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %61f7c5000212) @1

e041382f
%05e850fb3d59 = amo('maxu', 64, %92512cea6f4a, %d8b92a92d74d) @0
%277ddc569ab3 = set_x(16, %05e850fb3d59) @1
%92512cea6f4a = x(2) @0
%d8b92a92d74d = x(4) @0
amo('maxu', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %05e850fb3d59) @1
