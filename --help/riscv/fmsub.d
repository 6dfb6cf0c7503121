02000047
%1cb6c9a0cd07 = fma('d', %7aae32394321, %7aae32394321, %ca0f45c8847a, 0)
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%ca0f45c8847a = fneg('d', %7aae32394321)
%cfd832cc4f7d = set_f(0, 'd', %1cb6c9a0cd07) @0
set_f(0, 'd', %1cb6c9a0cd07) @0

fbffffc7
%6421d88d3957 = set_f(31, 'd', %74a6e1022398) @0
%74a6e1022398 = fma('d', %b86a220652c0, %b86a220652c0, %a4774bb0149d, 7)
%a4774bb0149d = fneg('d', %b86a220652c0)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
set_f(31, 'd', %74a6e1022398) @0

53555547
%0fd3a2683bda = fma('d', %62da237bc537, %d5de765faf78, %3fc5db07e3e4, 5)
%3fc5db07e3e4 = fneg('d', %62da237bc537)
%62da237bc537 = f(10, 'd') @0
%62da237bc537 = f(10, 'd') @0
%9ff6e92f4526 = set_f(10, 'd', %0fd3a2683bda) @0
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %0fd3a2683bda) @0

aaaaaac7
%22cdf7a3f383 = set_f(21, 'd', %7c45cae13792) @0
%5edb02fd998a = fneg('d', %d5de765faf78)
%62da237bc537 = f(10, 'd') @0
%7c45cae13792 = fma('d', %d5de765faf78, %62da237bc537, %5edb02fd998a, 2)
%d5de765faf78 = f(21, 'd') @0
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %7c45cae13792) @0

0a410847
%47bed81155e2 = fma('d', %f0914d36dfcb, %716f9cc6ceb9, %ef6d4584104f, 0)
%59f873b8726c = set_f(16, 'd', %47bed81155e2) @0
%693180f6b6ad = f(1, 'd') @0
%716f9cc6ceb9 = f(4, 'd') @0
%ef6d4584104f = fneg('d', %693180f6b6ad)
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %47bed81155e2) @0
