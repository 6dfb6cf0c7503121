0a000053
%227d4ed322c8 = fsub('d', %7aae32394321, %7aae32394321, 0)
%5560e4b88307 = set_f(0, 'd', %227d4ed322c8) @0
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
set_f(0, 'd', %227d4ed322c8) @0

0bffffd3
%5fade9e287ee = fsub('d', %b86a220652c0, %b86a220652c0, 7)
%7670677cec7c = set_f(31, 'd', %5fade9e287ee) @0
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
set_f(31, 'd', %5fade9e287ee) @0

0b555553
%62da237bc537 = f(10, 'd') @0
%cb5c74f45680 = set_f(10, 'd', %d1e795c59b69) @0
%d1e795c59b69 = fsub('d', %62da237bc537, %d5de765faf78, 5)
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %d1e795c59b69) @0

0aaaaad3
%2f32d7e11e7f = set_f(21, 'd', %4d8a626c6164) @0
%4d8a626c6164 = fsub('d', %d5de765faf78, %62da237bc537, 2)
%62da237bc537 = f(10, 'd') @0
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %4d8a626c6164) @0

0a410853
%716f9cc6ceb9 = f(4, 'd') @0
%cfdd5411456c = set_f(16, 'd', %de3002eb1318) @0
%de3002eb1318 = fsub('d', %f0914d36dfcb, %716f9cc6ceb9, 0)
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %de3002eb1318) @0
