c2200053
%7aae32394321 = f(0, 'd') @0
%8ab484c19ade = f_to_int(64, True, 'd', %7aae32394321, 0)
%93eb7d8de8a4 = set_x(0, %8ab484c19ade) @0
set_x(0, %8ab484c19ade) @0

c22fffd3
%15810fbc0277 = f_to_int(64, True, 'd', %b86a220652c0, 7)
%b86a220652c0 = f(31, 'd') @0
%cb6b4945e36a = set_x(31, %15810fbc0277) @0
set_x(31, %15810fbc0277) @0

c2255553
%58fa95188b5b = f_to_int(64, True, 'd', %62da237bc537, 5)
%62da237bc537 = f(10, 'd') @0
%80a4686c1695 = set_x(10, %58fa95188b5b) @0
set_x(10, %58fa95188b5b) @0

c22aaad3
%60d96ed8963e = f_to_int(64, True, 'd', %d5de765faf78, 2)
%ba895300b1e8 = set_x(21, %60d96ed8963e) @0
%d5de765faf78 = f(21, 'd') @0
set_x(21, %60d96ed8963e) @0

c2210853
%d7f8c449a9f5 = f_to_int(64, True, 'd', %f0914d36dfcb, 0)
%dcb8e76ac7f9 = set_x(16, %d7f8c449a9f5) @0
%f0914d36dfcb = f(2, 'd') @0
set_x(16, %d7f8c449a9f5) @0
