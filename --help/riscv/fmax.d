2a001053
%481892944d7d = set_f(0, 'd', %953e7373662b) @0
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%953e7373662b = fmax('d', %7aae32394321, %7aae32394321)
set_f(0, 'd', %953e7373662b) @0

2bff9fd3
%66a62bcebf23 = set_f(31, 'd', %bcaba3be6823) @0
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%bcaba3be6823 = fmax('d', %b86a220652c0, %b86a220652c0)
set_f(31, 'd', %bcaba3be6823) @0

2b551553
%2b5c799bd9e9 = set_f(10, 'd', %3be16a58f672) @0
%3be16a58f672 = fmax('d', %62da237bc537, %d5de765faf78)
%62da237bc537 = f(10, 'd') @0
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %3be16a58f672) @0

2aaa9ad3
%62da237bc537 = f(10, 'd') @0
%990cb5d63aec = fmax('d', %d5de765faf78, %62da237bc537)
%d5de765faf78 = f(21, 'd') @0
%e99d94daea62 = set_f(21, 'd', %990cb5d63aec) @0
set_f(21, 'd', %990cb5d63aec) @0

2a411853
%2fa5cf04ee2a = fmax('d', %f0914d36dfcb, %716f9cc6ceb9)
%6236716466d0 = set_f(16, 'd', %2fa5cf04ee2a) @0
%716f9cc6ceb9 = f(4, 'd') @0
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %2fa5cf04ee2a) @0
