8000302f
%18a7fdae4a0b = set_x(0, %98a6d5005c8d) @1
%498030703cb1 = x(0) @0
%498030703cb1 = x(0) @0
%98a6d5005c8d = amo('min', 64, %498030703cb1, %498030703cb1) @0
amo('min', 64, %498030703cb1, %498030703cb1) @0
set_x(0, %98a6d5005c8d) @1

87ffbfaf
%3bccc568a00d = set_x(31, %b977bc4ee36f) @1
%ad2c4153cfa8 = x(31) @0
%ad2c4153cfa8 = x(31) @0
%b977bc4ee36f = amo('min', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
amo('min', 64, %ad2c4153cfa8, %ad2c4153cfa8) @0
set_x(31, %b977bc4ee36f) @1

8555352f
%b8a1760f3d4a = amo('min', 64, %fdc90ec243aa, %d7d1b5e24308) @0
%d7d1b5e24308 = x(21) @0
%fb319e73efa5 = set_x(10, %b8a1760f3d4a) @1
%fdc90ec243aa = x(10) @0
amo('min', 64, %fdc90ec243aa, %d7d1b5e24308) @0
set_x(10, %b8a1760f3d4a) @1

82aabaaf
%7227617c338e = amo('min', 64, %d7d1b5e24308, %fdc90ec243aa) @0
%c23cd7909e8b = set_x(21, %7227617c338e) @1
%d7d1b5e24308 = x(21) @0
%fdc90ec243aa = x(10) @0
amo('min', 64, %d7d1b5e24308, %fdc90ec243aa) @0
set_x(21, %7227617c338e) @1

8041382f
%92512cea6f4a = x(2) @0
%b4e027f90e03 = set_x(16, %f866cd4d6191) @1
%d8b92a92d74d = x(4) @0
%f866cd4d6191 = amo('min', 64, %92512cea6f4a, %d8b92a92d74d) @0
amo('min', 64, %92512cea6f4a, %d8b92a92d74d) @0
set_x(16, %f866cd4d6191) @1
