58000053
%a3dd541ab125 = set_f(0, 's', %b610b01ceb63) @0
%b610b01ceb63 = fsqrt('s', %f56750cb512d, 0)
%f56750cb512d = f(0, 's') @0
set_f(0, 's', %b610b01ceb63) @0

580fffd3
%2b87ad702c07 = set_f(31, 's', %5caf540dcecd) @0
%5caf540dcecd = fsqrt('s', %ed7baf56b306, 7)
%ed7baf56b306 = f(31, 's') @0
set_f(31, 's', %5caf540dcecd) @0

58055553
%312ccb93ac0b = f(10, 's') @0
%b93b9dd18c6a = set_f(10, 's', %c58eec37c2e0) @0
%c58eec37c2e0 = fsqrt('s', %312ccb93ac0b, 5)
set_f(10, 's', %c58eec37c2e0) @0

580aaad3
%1e355a51b657 = set_f(21, 's', %dfd9c584cea9) @0
%dfd9c584cea9 = fsqrt('s', %ede313efa50c, 2)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %dfd9c584cea9) @0

58010853
%030fe6ec5230 = f(2, 's') @0
%43bf308707f0 = fsqrt('s', %030fe6ec5230, 0)
%e0c9755f06b6 = set_f(16, 's', %43bf308707f0) @0
set_f(16, 's', %43bf308707f0) @0
