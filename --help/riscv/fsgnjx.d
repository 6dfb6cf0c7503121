22002053
%1c89ccaed4fc = f_bits('d', %7aae32394321)
%1c89ccaed4fc = f_bits('d', %7aae32394321)
%457309ed1b91 = or_(64, %8fe9717647c4, %b22dd7d53530)
%6ba6c5087b8b = f_from_bits('d', %457309ed1b91)
%6d35e6156da2 = xor(64, %1c89ccaed4fc, %1c89ccaed4fc)
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%8fe9717647c4 = and_(64, %6d35e6156da2, 0x8000000000000000:64)
%b22dd7d53530 = and_(64, %1c89ccaed4fc, 0x7fffffffffffffff:64)
%c0ac8706142c = set_f(0, 'd', %6ba6c5087b8b) @0
set_f(0, 'd', %6ba6c5087b8b) @0

23ffafd3
%025630f4f181 = set_f(31, 'd', %8ff6294e0a2e) @0
%3ebd601ed0c4 = and_(64, %c6ca54a89287, 0x8000000000000000:64)
%4ee1de53b6fe = or_(64, %3ebd601ed0c4, %ddb7e4bed672)
%8ff6294e0a2e = f_from_bits('d', %4ee1de53b6fe)
%b81267fdf0b4 = f_bits('d', %b86a220652c0)
%b81267fdf0b4 = f_bits('d', %b86a220652c0)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%c6ca54a89287 = xor(64, %b81267fdf0b4, %b81267fdf0b4)
%ddb7e4bed672 = and_(64, %b81267fdf0b4, 0x7fffffffffffffff:64)
set_f(31, 'd', %8ff6294e0a2e) @0

23552553
%0c4dee1dd76d = set_f(10, 'd', %32b6ca428ffc) @0
%27f9574f2c39 = xor(64, %8fd4476064c6, %a6ba76c8bf5c)
%32b6ca428ffc = f_from_bits('d', %8251e4653985)
%62da237bc537 = f(10, 'd') @0
%7525757bec2e = and_(64, %a6ba76c8bf5c, 0x7fffffffffffffff:64)
%8251e4653985 = or_(64, %7525757bec2e, %ae5d653771cf)
%8fd4476064c6 = f_bits('d', %d5de765faf78)
%a6ba76c8bf5c = f_bits('d', %62da237bc537)
%ae5d653771cf = and_(64, %27f9574f2c39, 0x8000000000000000:64)
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %32b6ca428ffc) @0

22aaaad3
%246ffbb79401 = set_f(21, 'd', %af0b24d48f99) @0
%27f9574f2c39 = xor(64, %8fd4476064c6, %a6ba76c8bf5c)
%2daf24c60566 = or_(64, %ae5d653771cf, %afda5a959394)
%62da237bc537 = f(10, 'd') @0
%8fd4476064c6 = f_bits('d', %d5de765faf78)
%a6ba76c8bf5c = f_bits('d', %62da237bc537)
%ae5d653771cf = and_(64, %27f9574f2c39, 0x8000000000000000:64)
%af0b24d48f99 = f_from_bits('d', %2daf24c60566)
%afda5a959394 = and_(64, %8fd4476064c6, 0x7fffffffffffffff:64)
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %af0b24d48f99) @0

22412853
%0c2493bd1f16 = and_(64, %3212edaa9e25, 0x7fffffffffffffff:64)
%164bb02efceb = or_(64, %0c2493bd1f16, %fd63648bf389)
%3212edaa9e25 = f_bits('d', %f0914d36dfcb)
%716f9cc6ceb9 = f(4, 'd') @0
%738cb51aaab9 = xor(64, %3212edaa9e25, %b433d766adeb)
%9ece9b7fa416 = f_from_bits('d', %164bb02efceb)
%a5fd3b72b8a6 = set_f(16, 'd', %9ece9b7fa416) @0
%b433d766adeb = f_bits('d', %716f9cc6ceb9)
%f0914d36dfcb = f(2, 'd') @0
%fd63648bf389 = and_(64, %738cb51aaab9, 0x8000000000000000:64)
set_f(16, 'd', %9ece9b7fa416) @0
