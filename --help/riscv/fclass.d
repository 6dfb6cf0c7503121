e2001053
%4838fef8dee2 = fclass('d', %7aae32394321)
%7aae32394321 = f(0, 'd') @0
%a0344ab18588 = set_x(0, %4838fef8dee2) @0
set_x(0, %4838fef8dee2) @0

e20f9fd3
%4001f6fa11a4 = fclass('d', %b86a220652c0)
%45e444b193a3 = set_x(31, %4001f6fa11a4) @0
%b86a220652c0 = f(31, 'd') @0
set_x(31, %4001f6fa11a4) @0

e2051553
%52545777e452 = fclass('d', %62da237bc537)
%62da237bc537 = f(10, 'd') @0
%874b2b6a8617 = set_x(10, %52545777e452) @0
set_x(10, %52545777e452) @0

e20a9ad3
%737a269ce548 = set_x(21, %f8e4bc185b4e) @0
%d5de765faf78 = f(21, 'd') @0
%f8e4bc185b4e = fclass('d', %d5de765faf78)
set_x(21, %f8e4bc185b4e) @0

e2011853
%3a7e9d1f6cc4 = set_x(16, %51b3c7162aa5) @0
%51b3c7162aa5 = fclass('d', %f0914d36dfcb)
%f0914d36dfcb = f(2, 'd') @0
set_x(16, %51b3c7162aa5) @0
