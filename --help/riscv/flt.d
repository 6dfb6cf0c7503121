a2001053
%29150f09ae6e = set_x(0, %6366ceb4acc4) @0
%6366ceb4acc4 = zext(64, 1, %b89a7f342595)
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%b89a7f342595 = flt('d', %7aae32394321, %7aae32394321)
set_x(0, %6366ceb4acc4) @0

a3ff9fd3
%91bdb797dc85 = flt('d', %b86a220652c0, %b86a220652c0)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%be9f52a44b37 = set_x(31, %c80bb87d731e) @0
%c80bb87d731e = zext(64, 1, %91bdb797dc85)
set_x(31, %c80bb87d731e) @0

a3551553
%026461126b19 = zext(64, 1, %15a28c0cddd9)
%15a28c0cddd9 = flt('d', %62da237bc537, %d5de765faf78)
%62da237bc537 = f(10, 'd') @0
%7db389044a80 = set_x(10, %026461126b19) @0
%d5de765faf78 = f(21, 'd') @0
set_x(10, %026461126b19) @0

a2aa9ad3
%62da237bc537 = f(10, 'd') @0
%77a12d9924d0 = set_x(21, %9c4a8d839ec7) @0
%9c4a8d839ec7 = zext(64, 1, %b7e9ef3fd354)
%b7e9ef3fd354 = flt('d', %d5de765faf78, %62da237bc537)
%d5de765faf78 = f(21, 'd') @0
set_x(21, %9c4a8d839ec7) @0

a2411853
%066bf1b0e08d = flt('d', %f0914d36dfcb, %716f9cc6ceb9)
%716f9cc6ceb9 = f(4, 'd') @0
%82c43d09d8a7 = set_x(16, %d30a60ee1550) @0
%d30a60ee1550 = zext(64, 1, %066bf1b0e08d)
%f0914d36dfcb = f(2, 'd') @0
set_x(16, %d30a60ee1550) @0
