c2300053
%754b7b2f73a1 = set_x(0, %e592a51a77ad) @0
%7aae32394321 = f(0, 'd') @0
%e592a51a77ad = f_to_int(64, False, 'd', %7aae32394321, 0)
set_x(0, %e592a51a77ad) @0

c23fffd3
%a13061721864 = set_x(31, %c082161f0556) @0
%b86a220652c0 = f(31, 'd') @0
%c082161f0556 = f_to_int(64, False, 'd', %b86a220652c0, 7)
set_x(31, %c082161f0556) @0

c2355553
%0a742d380bab = set_x(10, %738d088dd084) @0
%62da237bc537 = f(10, 'd') @0
%738d088dd084 = f_to_int(64, False, 'd', %62da237bc537, 5)
set_x(10, %738d088dd084) @0

c23aaad3
%0b20e6689748 = f_to_int(64, False, 'd', %d5de765faf78, 2)
%d5de765faf78 = f(21, 'd') @0
%f2296ba8083a = set_x(21, %0b20e6689748) @0
set_x(21, %0b20e6689748) @0

c2310853
%7830bbf19899 = set_x(16, %e4e800ee9479) @0
%e4e800ee9479 = f_to_int(64, False, 'd', %f0914d36dfcb, 0)
%f0914d36dfcb = f(2, 'd') @0
set_x(16, %e4e800ee9479) @0
