12000053
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%9e543847634c = fmul('d', %7aae32394321, %7aae32394321, 0)
%cc295bb5d960 = set_f(0, 'd', %9e543847634c) @0
set_f(0, 'd', %9e543847634c) @0

13ffffd3
%5023cbfe5336 = fmul('d', %b86a220652c0, %b86a220652c0, 7)
%7ef0d2579ffc = set_f(31, 'd', %5023cbfe5336) @0
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
set_f(31, 'd', %5023cbfe5336) @0

13555553
%0ae7b0a824f7 = set_f(10, 'd', %ee3cea95a65c) @0
%62da237bc537 = f(10, 'd') @0
%d5de765faf78 = f(21, 'd') @0
%ee3cea95a65c = fmul('d', %62da237bc537, %d5de765faf78, 5)
set_f(10, 'd', %ee3cea95a65c) @0

12aaaad3
%33e5b3ffc610 = set_f(21, 'd', %5402405243ba) @0
%5402405243ba = fmul('d', %d5de765faf78, %62da237bc537, 2)
%62da237bc537 = f(10, 'd') @0
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %5402405243ba) @0

12410853
%54c04a95e4a5 = set_f(16, 'd', %d5033ba491b6) @0
%716f9cc6ceb9 = f(4, 'd') @0
%d5033ba491b6 = fmul('d', %f0914d36dfcb, %716f9cc6ceb9, 0)
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %d5033ba491b6) @0
