20002053
%1e0781168559 = f_bits('s', %f56750cb512d)
%1e0781168559 = f_bits('s', %f56750cb512d)
%5916c91fef2a = or_(32, %96666f6d8b50, %96a6249f1d4a)
%96666f6d8b50 = and_(32, %de02ba623b96, 0x80000000:32)
%96a6249f1d4a = and_(32, %1e0781168559, 0x7fffffff:32)
%de02ba623b96 = xor(32, %1e0781168559, %1e0781168559)
%e0416075d5dd = f_from_bits('s', %5916c91fef2a)
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%fc0779f079fd = set_f(0, 's', %e0416075d5dd) @0
set_f(0, 's', %e0416075d5dd) @0

21ffafd3
%129c07fe2d05 = or_(32, %94f483306dd1, %ab95315f291b)
%44b34bfa1bda = f_from_bits('s', %129c07fe2d05)
%788039bb5d90 = set_f(31, 's', %44b34bfa1bda) @0
%94f483306dd1 = and_(32, %f5bc975d17a4, 0x7fffffff:32)
%ab95315f291b = and_(32, %d0f5e4e85cf4, 0x80000000:32)
%d0f5e4e85cf4 = xor(32, %f5bc975d17a4, %f5bc975d17a4)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%f5bc975d17a4 = f_bits('s', %ed7baf56b306)
%f5bc975d17a4 = f_bits('s', %ed7baf56b306)
set_f(31, 's', %44b34bfa1bda) @0

21552553
%1cc86ed53756 = and_(32, %9cc0f4476bf1, 0x7fffffff:32)
%1cfd278192e5 = xor(32, %9cc0f4476bf1, %9e9795c79c68)
%312ccb93ac0b = f(10, 's') @0
%43d70ae3fb71 = f_from_bits('s', %504028b6b05f)
%4fd87eba22a6 = and_(32, %1cfd278192e5, 0x80000000:32)
%504028b6b05f = or_(32, %1cc86ed53756, %4fd87eba22a6)
%9cc0f4476bf1 = f_bits('s', %312ccb93ac0b)
%9e9795c79c68 = f_bits('s', %ede313efa50c)
%d8d6488d9b9b = set_f(10, 's', %43d70ae3fb71) @0
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %43d70ae3fb71) @0

20aaaad3
%1cfd278192e5 = xor(32, %9cc0f4476bf1, %9e9795c79c68)
%312ccb93ac0b = f(10, 's') @0
%4fd87eba22a6 = and_(32, %1cfd278192e5, 0x80000000:32)
%559d45715c08 = set_f(21, 's', %b97e5b46ed38) @0
%9cc0f4476bf1 = f_bits('s', %312ccb93ac0b)
%9e9795c79c68 = f_bits('s', %ede313efa50c)
%b04112e83e53 = or_(32, %4fd87eba22a6, %d117b8e9d427)
%b97e5b46ed38 = f_from_bits('s', %b04112e83e53)
%d117b8e9d427 = and_(32, %9e9795c79c68, 0x7fffffff:32)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %b97e5b46ed38) @0

20412853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%284a772862a1 = xor(32, %2a6ebffa99d5, %39fe1ee10843)
%2a6ebffa99d5 = f_bits('s', %030fe6ec5230)
%39fe1ee10843 = f_bits('s', %002ad5caeb19)
%8842e91dc09c = set_f(16, 's', %8e223ae13ed1) @0
%8e223ae13ed1 = f_from_bits('s', %e546558ef221)
%c6ac7ca70b52 = and_(32, %2a6ebffa99d5, 0x7fffffff:32)
%e0e73ac69145 = and_(32, %284a772862a1, 0x80000000:32)
%e546558ef221 = or_(32, %c6ac7ca70b52, %e0e73ac69145)
set_f(16, 's', %8e223ae13ed1) @0
