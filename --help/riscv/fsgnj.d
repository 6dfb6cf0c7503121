22000053
%1c89ccaed4fc = f_bits('d', %7aae32394321)
%1c89ccaed4fc = f_bits('d', %7aae32394321)
%2633b5b1c3ae = f_from_bits('d', %49644e6469ad)
%49644e6469ad = or_(64, %769fc6cee510, %b22dd7d53530)
%6ab9a973a114 = set_f(0, 'd', %2633b5b1c3ae) @0
%769fc6cee510 = and_(64, %1c89ccaed4fc, 0x8000000000000000:64)
%7aae32394321 = f(0, 'd') @0
%7aae32394321 = f(0, 'd') @0
%b22dd7d53530 = and_(64, %1c89ccaed4fc, 0x7fffffffffffffff:64)
set_f(0, 'd', %2633b5b1c3ae) @0

23ff8fd3
%2f545883c2e4 = f_from_bits('d', %d8c5e0715310)
%b81267fdf0b4 = f_bits('d', %b86a220652c0)
%b81267fdf0b4 = f_bits('d', %b86a220652c0)
%b86a220652c0 = f(31, 'd') @0
%b86a220652c0 = f(31, 'd') @0
%c960f9eb0562 = and_(64, %b81267fdf0b4, 0x8000000000000000:64)
%d8c5e0715310 = or_(64, %c960f9eb0562, %ddb7e4bed672)
%ddb7e4bed672 = and_(64, %b81267fdf0b4, 0x7fffffffffffffff:64)
%e529ba663c9a = set_f(31, 'd', %2f545883c2e4) @0
set_f(31, 'd', %2f545883c2e4) @0

23550553
%62da237bc537 = f(10, 'd') @0
%6b6d317c92e8 = f_from_bits('d', %ac19cd7d3027)
%6f7d5923e3b2 = and_(64, %8fd4476064c6, 0x8000000000000000:64)
%7525757bec2e = and_(64, %a6ba76c8bf5c, 0x7fffffffffffffff:64)
%8fd4476064c6 = f_bits('d', %d5de765faf78)
%a6ba76c8bf5c = f_bits('d', %62da237bc537)
%ac19cd7d3027 = or_(64, %6f7d5923e3b2, %7525757bec2e)
%d5de765faf78 = f(21, 'd') @0
%f4a9b16ab3a0 = set_f(10, 'd', %6b6d317c92e8) @0
set_f(10, 'd', %6b6d317c92e8) @0

22aa8ad3
%1c6c0807c41e = f_from_bits('d', %926023cf9447)
%62da237bc537 = f(10, 'd') @0
%8fd4476064c6 = f_bits('d', %d5de765faf78)
%926023cf9447 = or_(64, %afda5a959394, %f669b1c0f61e)
%a6ba76c8bf5c = f_bits('d', %62da237bc537)
%afda5a959394 = and_(64, %8fd4476064c6, 0x7fffffffffffffff:64)
%b64492549998 = set_f(21, 'd', %1c6c0807c41e) @0
%d5de765faf78 = f(21, 'd') @0
%f669b1c0f61e = and_(64, %a6ba76c8bf5c, 0x8000000000000000:64)
set_f(21, 'd', %1c6c0807c41e) @0

22410853
%0c2493bd1f16 = and_(64, %3212edaa9e25, 0x7fffffffffffffff:64)
%3212edaa9e25 = f_bits('d', %f0914d36dfcb)
%381ee89a8be8 = or_(64, %0c2493bd1f16, %4aae13dd976f)
%4aae13dd976f = and_(64, %b433d766adeb, 0x8000000000000000:64)
%716f9cc6ceb9 = f(4, 'd') @0
%b433d766adeb = f_bits('d', %716f9cc6ceb9)
%d0adaabbcb81 = set_f(16, 'd', %fe9d85f60341) @0
%f0914d36dfcb = f(2, 'd') @0
%fe9d85f60341 = f_from_bits('d', %381ee89a8be8)
set_f(16, 'd', %fe9d85f60341) @0
