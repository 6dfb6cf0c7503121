0200004f
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%941910e186a5 = fma('d', %ca0f45c8847a, %7aae32394321, %ca0f45c8847a, 0)
%ca0f45c8847a = fneg('d', %7aae32394321)
%ca0f45c8847a = fneg('d', %7aae32394321)
%e59cea61bd0f = set_f(0, 'd', %941910e186a5) @0
set_f(0, 'd', %941910e186a5) @0

fbffffcf
%08a7dd51ea57 = set_f(31, 'd', %ced0dec88a30) @0
%a4774bb0149d = fneg('d', %b86a220652c0)
%a4774bb0149d = fneg('d', %b86a220652c0)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%ced0dec88a30 = fma('d', %a4774bb0149d, %b86a220652c0, %a4774bb0149d, 7)
set_f(31, 'd', %ced0dec88a30) @0

5355554f
%3b1b0792fd9d = set_f(10, 'd', %a567eb60bf15) @0
%3fc5db07e3e4 = fneg('d', %62da237bc537)
%3fc5db07e3e4 = fneg('d', %62da237bc537)
%62da237bc537 = f(10, 'd') @0
%62da237bc537 = f(10, 'd') @0
%a567eb60bf15 = fma('d', %3fc5db07e3e4, %d5de765faf78, %3fc5db07e3e4, 5)
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %a567eb60bf15) @0

aaaaaacf
%3dffe86716ea = set_f(21, 'd', %9db800cca9be) @0
%5edb02fd998a = fneg('d', %d5de765faf78)
%5edb02fd998a = fneg('d', %d5de765faf78)
%62da237bc537 = f(10, 'd') @0
%9db800cca9be = fma('d', %5edb02fd998a, %62da237bc537, %5edb02fd998a, 2)
%d5de765faf78 = f(21, 'd') @0
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %9db800cca9be) @0

0a41084f
%60db796d9bab = fma('d', %705ae36e1446, %716f9cc6ceb9, %ef6d4584104f, 0)
%693180f6b6ad = f(1, 'd') @0
%705ae36e1446 = fneg('d', %f0914d36dfcb)
%716f9cc6ceb9 = f(4, 'd') @0
%8edb25dbb56b = set_f(16, 'd', %60db796d9bab) @0
%ef6d4584104f = fneg('d', %693180f6b6ad)
%f0914d36dfcb = f(2, 'd') @0
set_f(16, 'd', %60db796d9bab) @0
