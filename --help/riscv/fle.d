a2000053
%103dc7d8a689 = fle('d', %7aae32394321, %7aae32394321)
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%93290b935ec1 = zext(64, 1, %103dc7d8a689)
%be78e252518b = set_x(0, %93290b935ec1) @0
set_x(0, %93290b935ec1) @0

a3ff8fd3
%26f0ec07af26 = fle('d', %b86a220652c0, %b86a220652c0)
%713f0301e080 = zext(64, 1, %26f0ec07af26)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%e9e00243c63e = set_x(31, %713f0301e080) @0
set_x(31, %713f0301e080) @0

a3550553
%06c8822759ab = fle('d', %62da237bc537, %d5de765faf78)
%5da20f3a51a9 = zext(64, 1, %06c8822759ab)
%62da237bc537 = f(10, 'd') @0
%c2afd4635279 = set_x(10, %5da20f3a51a9) @0
%d5de765faf78 = f(21, 'd') @0
set_x(10, %5da20f3a51a9) @0

a2aa8ad3
%23fb4111b163 = fle('d', %d5de765faf78, %62da237bc537)
%317af6523b60 = set_x(21, %b9dad23eb32a) @0
%62da237bc537 = f(10, 'd') @0
%b9dad23eb32a = zext(64, 1, %23fb4111b163)
%d5de765faf78 = f(21, 'd') @0
set_x(21, %b9dad23eb32a) @0

a2410853
%0a05e746d0e8 = set_x(16, %1c92679ef1af) @0
%1c92679ef1af = zext(64, 1, %bae664976d62)
%716f9cc6ceb9 = f(4, 'd') @0
%bae664976d62 = fle('d', %f0914d36dfcb, %716f9cc6ceb9)
%f0914d36dfcb = f(2, 'd') @0
set_x(16, %1c92679ef1af) @0
