02000053
%0b832170860f = set_f(0, 'd', %1a9a242aacdd) @0
%1a9a242aacdd = fadd('d', %7aae32394321, %7aae32394321, 0)
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
set_f(0, 'd', %1a9a242aacdd) @0

03ffffd3
%6a6904567e4c = set_f(31, 'd', %91df0d295dcc) @0
%91df0d295dcc = fadd('d', %b86a220652c0, %b86a220652c0, 7)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
set_f(31, 'd', %91df0d295dcc) @0

03555553
%62da237bc537 = f(10, 'd') @0
%ace249489fd8 = fadd('d', %62da237bc537, %d5de765faf78, 5)
%adf623db67b9 = set_f(10, 'd', %ace249489fd8) @0
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %ace249489fd8) @0

02aaaad3
%12ca8c9fa9c0 = set_f(21, 'd', %7c4801b69a7d) @0
%62da237bc537 = f(10, 'd') @0
%7c4801b69a7d = fadd('d', %d5de765faf78, %62da237bc537, 2)
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %7c4801b69a7d) @0

02410853
%4612b5b07639 = fadd('d', %f0914d36dfcb, %716f9cc6ceb9, 0)
%716f9cc6ceb9 = f(4, 'd') @0
%9b979c2409de = set_f(16, 'd', %4612b5b07639) @0
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %4612b5b07639) @0
