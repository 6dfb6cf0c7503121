c2000053
%1137161ee9d4 = set_x(0, %3a63b4ff9254) @0
%3a63b4ff9254 = sext(64, 32, %4ee12b24de39)
%4ee12b24de39 = f_to_int(32, True, 'd', %7aae32394321, 0)
%7aae32394321 = f(0, 'd') @0
set_x(0, %3a63b4ff9254) @0

c20fffd3
%5ea392910c1c = f_to_int(32, True, 'd', %b86a220652c0, 7)
%b86a220652c0 = f(31, 'd') @0
%bb0df18cc7bc = set_x(31, %ee73f17c8d3f) @0
%ee73f17c8d3f = sext(64, 32, %5ea392910c1c)
set_x(31, %ee73f17c8d3f) @0

c2055553
%18bee1b82a84 = set_x(10, %aff1e77acb7f) @0
%3e05f206451c = f_to_int(32, True, 'd', %62da237bc537, 5)
%62da237bc537 = f(10, 'd') @0
%aff1e77acb7f = sext(64, 32, %3e05f206451c)
set_x(10, %aff1e77acb7f) @0

c20aaad3
%699c0dbd2fcb = f_to_int(32, True, 'd', %d5de765faf78, 2)
%b088f5dfcf96 = set_x(21, %cb64f908a4a2) @0
%cb64f908a4a2 = sext(64, 32, %699c0dbd2fcb)
%d5de765faf78 = f(21, 'd') @0
set_x(21, %cb64f908a4a2) @0

c2010853
%5d9d1ff86dbb = set_x(16, %609e9fac443e) @0
%609e9fac443e = sext(64, 32, %6bb22f7c9257)
%6bb22f7c9257 = f_to_int(32, True, 'd', %f0914d36dfcb, 0)
%f0914d36dfcb = f(2, 'd') @0
set_x(16, %609e9fac443e) @0
