22001053
%1c89ccaed4fc = f_bits('d', %7aae32394321)
%1c89ccaed4fc = f_bits('d', %7aae32394321)
%3e00c45bfaf0 = or_(64, %aac591fd8e45, %b22dd7d53530)
%6e2257491d64 = set_f(0, 'd', %c4311abf9ed3) @0
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%aac591fd8e45 = and_(64, %db19ff368b0e, 0x8000000000000000:64)
%b22dd7d53530 = and_(64, %1c89ccaed4fc, 0x7fffffffffffffff:64)
%c4311abf9ed3 = f_from_bits('d', %3e00c45bfaf0)
%db19ff368b0e = xor(64, %1c89ccaed4fc, 0xffffffffffffffff:64)
set_f(0, 'd', %c4311abf9ed3) @0

23ff9fd3
%2f1198957c91 = f_from_bits('d', %ae60273917f8)
%3369a605ca36 = and_(64, %ae5feb9db3d3, 0x8000000000000000:64)
%39a2314da977 = set_f(31, 'd', %2f1198957c91) @0
%ae5feb9db3d3 = xor(64, %b81267fdf0b4, 0xffffffffffffffff:64)
%ae60273917f8 = or_(64, %3369a605ca36, %ddb7e4bed672)
%b81267fdf0b4 = f_bits('d', %b86a220652c0)
%b81267fdf0b4 = f_bits('d', %b86a220652c0)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%ddb7e4bed672 = and_(64, %b81267fdf0b4, 0x7fffffffffffffff:64)
set_f(31, 'd', %2f1198957c91) @0

23551553
%0c376e825dc2 = f_from_bits('d', %4459a9724722)
%4459a9724722 = or_(64, %7525757bec2e, %7d6dea32d63e)
%62da237bc537 = f(10, 'd') @0
%6539e16b3dfb = set_f(10, 'd', %0c376e825dc2) @0
%7525757bec2e = and_(64, %a6ba76c8bf5c, 0x7fffffffffffffff:64)
%7d6dea32d63e = and_(64, %9139f8f0f933, 0x8000000000000000:64)
%8fd4476064c6 = f_bits('d', %d5de765faf78)
%9139f8f0f933 = xor(64, %8fd4476064c6, 0xffffffffffffffff:64)
%a6ba76c8bf5c = f_bits('d', %62da237bc537)
%d5de765faf78 = f(21, 'd') @0
set_f(10, 'd', %0c376e825dc2) @0

22aa9ad3
%0060d83028f6 = or_(64, %9bc9fad19136, %afda5a959394)
%3bcd19f1ba9b = set_f(21, 'd', %bff941690dd7) @0
%62da237bc537 = f(10, 'd') @0
%8fd4476064c6 = f_bits('d', %d5de765faf78)
%9bc9fad19136 = and_(64, %c8f9f6dc5659, 0x8000000000000000:64)
%a6ba76c8bf5c = f_bits('d', %62da237bc537)
%afda5a959394 = and_(64, %8fd4476064c6, 0x7fffffffffffffff:64)
%bff941690dd7 = f_from_bits('d', %0060d83028f6)
%c8f9f6dc5659 = xor(64, %a6ba76c8bf5c, 0xffffffffffffffff:64)
%d5de765faf78 = f(21, 'd') @0
set_f(21, 'd', %bff941690dd7) @0

22411853
%0c2493bd1f16 = and_(64, %3212edaa9e25, 0x7fffffffffffffff:64)
%2eb60a689137 = or_(64, %0c2493bd1f16, %c7ab3d0a1c3c)
%3212edaa9e25 = f_bits('d', %f0914d36dfcb)
%581cbf1cf0c6 = xor(64, %b433d766adeb, 0xffffffffffffffff:64)
%716f9cc6ceb9 = f(4, 'd') @0
%75621d4aeb95 = f_from_bits('d', %2eb60a689137)
%b433d766adeb = f_bits('d', %716f9cc6ceb9)
%c7ab3d0a1c3c = and_(64, %581cbf1cf0c6, 0x8000000000000000:64)
%f0914d36dfcb = f(2, 'd') @0
%fe3aedeafb23 = set_f(16, 'd', %75621d4aeb95) @0
set_f(16, 'd', %75621d4aeb95) @0
