0200004b
%00c7b157d5be = fma('d', %ca0f45c8847a, %7aae32394321, %7aae32394321, 0)
%2e707bd7ca4a = set_f(0, 'd', %00c7b157d5be) @0
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%ca0f45c8847a = fneg('d', %7aae32394321)
set_f(0, 'd', %00c7b157d5be) @0

fbffffcb
%a4774bb0149d = fneg('d', %b86a220652c0)
%a73078a8cff1 = set_f(31, 'd', %f06ac900b388) @0
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%f06ac900b388 = fma('d', %a4774bb0149d, %b86a220652c0, %b86a220652c0, 7)
set_f(31, 'd', %f06ac900b388) @0

5355554b
%3fc5db07e3e4 = fneg('d', %62da237bc537)
%60444022be31 = set_f(10, 'd', %d2a05066c201) @0
%62da237bc537 = f(10, 'd') @0
%62da237bc537 = f(10, 'd') @0
%d2a05066c201 = fma('d', %3fc5db07e3e4, %d5de765faf78, %62da237bc537, 5)
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %d2a05066c201) @0

aaaaaacb
%5edb02fd998a = fneg('d', %d5de765faf78)
%62da237bc537 = f(10, 'd') @0
%6babe71fe17d = fma('d', %5edb02fd998a, %62da237bc537, %d5de765faf78, 2)
%8058695a301b = set_f(21, 'd', %6babe71fe17d) @0
%d5de765faf78 = f(21, 'd') @0
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %6babe71fe17d) @0

0a41084b
%693180f6b6ad = f(1, 'd') @0
%705ae36e1446 = fneg('d', %f0914d36dfcb)
%716f9cc6ceb9 = f(4, 'd') @0
%9a8ef716ba6d = set_f(16, 'd', %b783c3997950) @0
%b783c3997950 = fma('d', %705ae36e1446, %716f9cc6ceb9, %693180f6b6ad, 0)
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %b783c3997950) @0
