20001053
%0becf5af269d = or_(32, %96a6249f1d4a, %fc33d45abe5f)
%1e0781168559 = f_bits('s', %f56750cb512d)
%1e0781168559 = f_bits('s', %f56750cb512d)
%24d3e67a0c88 = f_from_bits('s', %0becf5af269d)
%96a6249f1d4a = and_(32, %1e0781168559, 0x7fffffff:32)
%d7b3aaf0c4c0 = set_f(0, 's', %24d3e67a0c88) @0
%f31e55cb3f23 = xor(32, %1e0781168559, 0xffffffff:32)
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
%fc33d45abe5f = and_(32, %f31e55cb3f23, 0x80000000:32)
set_f(0, 's', %24d3e67a0c88) @0

21ff9fd3
%1b5bbf78f918 = f_from_bits('s', %958cc762c030)
%3321f0aab2b0 = set_f(31, 's', %1b5bbf78f918) @0
%4ade337eedd8 = and_(32, %8aa88e2084eb, 0x80000000:32)
%8aa88e2084eb = xor(32, %f5bc975d17a4, 0xffffffff:32)
%94f483306dd1 = and_(32, %f5bc975d17a4, 0x7fffffff:32)
%958cc762c030 = or_(32, %4ade337eedd8, %94f483306dd1)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%f5bc975d17a4 = f_bits('s', %ed7baf56b306)
%f5bc975d17a4 = f_bits('s', %ed7baf56b306)
set_f(31, 's', %1b5bbf78f918) @0

21551553
%02040a23cebb = and_(32, %e67878f38120, 0x80000000:32)
%1cc86ed53756 = and_(32, %9cc0f4476bf1, 0x7fffffff:32)
%2855c05390e3 = set_f(10, 's', %bce6217ea208) @0
%312ccb93ac0b = f(10, 's') @0
%3cac4e1eb476 = or_(32, %02040a23cebb, %1cc86ed53756)
%9cc0f4476bf1 = f_bits('s', %312ccb93ac0b)
%9e9795c79c68 = f_bits('s', %ede313efa50c)
%bce6217ea208 = f_from_bits('s', %3cac4e1eb476)
%e67878f38120 = xor(32, %9e9795c79c68, 0xffffffff:32)
%ede313efa50c = f(21, 's') @0
set_f(10, 's', %bce6217ea208) @0

20aa9ad3
%2f0de3635ea1 = set_f(21, 's', %9735fd81b450) @0
%312ccb93ac0b = f(10, 's') @0
%656fc8197818 = and_(32, %a79a187abed4, 0x80000000:32)
%9735fd81b450 = f_from_bits('s', %d364de252101)
%9cc0f4476bf1 = f_bits('s', %312ccb93ac0b)
%9e9795c79c68 = f_bits('s', %ede313efa50c)
%a79a187abed4 = xor(32, %9cc0f4476bf1, 0xffffffff:32)
%d117b8e9d427 = and_(32, %9e9795c79c68, 0x7fffffff:32)
%d364de252101 = or_(32, %656fc8197818, %d117b8e9d427)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %9735fd81b450) @0

20411853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%2a6ebffa99d5 = f_bits('s', %030fe6ec5230)
%39fe1ee10843 = f_bits('s', %002ad5caeb19)
%481f99ad5d3c = or_(32, %8c7000b6d7ee, %c6ac7ca70b52)
%8c7000b6d7ee = and_(32, %b1b09af2e1e6, 0x80000000:32)
%9f0843a6f79d = f_from_bits('s', %481f99ad5d3c)
%ac3bd319b3e5 = set_f(16, 's', %9f0843a6f79d) @0
%b1b09af2e1e6 = xor(32, %39fe1ee10843, 0xffffffff:32)
%c6ac7ca70b52 = and_(32, %2a6ebffa99d5, 0x7fffffff:32)
set_f(16, 's', %9f0843a6f79d) @0
