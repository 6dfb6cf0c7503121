1a000053
%18c568d5a795 = fdiv('d', %7aae32394321, %7aae32394321, 0)
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%95caec403208 = set_f(0, 'd', %18c568d5a795) @0
set_f(0, 'd', %18c568d5a795) @0

1bffffd3
%44a330820d03 = set_f(31, 'd', %7576d505a86c) @0
%7576d505a86c = fdiv('d', %b86a220652c0, %b86a220652c0, 7)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
set_f(31, 'd', %7576d505a86c) @0

1b555553
%112bbdcc32d1 = fdiv('d', %62da237bc537, %d5de765faf78, 5)
%4e1750e3b5a4 = set_f(10, 'd', %112bbdcc32d1) @0
%62da237bc537 = f(10, 'd') @0
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %112bbdcc32d1) @0

1aaaaad3
%01b6a69eaf83 = fdiv('d', %d5de765faf78, %62da237bc537, 2)
%62da237bc537 = f(10, 'd') @0
%a5ce3735a864 = set_f(21, 'd', %01b6a69eaf83) @0
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %01b6a69eaf83) @0

1a410853
%5971680dc8c6 = fdiv('d', %f0914d36dfcb, %716f9cc6ceb9, 0)
%716f9cc6ceb9 = f(4, 'd') @0
%88935e002a1c = set_f(16, 'd', %5971680dc8c6) @0
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %5971680dc8c6) @0
