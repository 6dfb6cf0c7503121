20000053
%1e0781168559 = f_bits('s', %f56750cb512d)
%1e0781168559 = f_bits('s', %f56750cb512d)
%587d7d449749 = and_(32, %1e0781168559, 0x80000000:32)
%79b53dff49b4 = or_(32, %587d7d449749, %96a6249f1d4a)
%96a6249f1d4a = and_(32, %1e0781168559, 0x7fffffff:32)
%a4617d4216b7 = f_from_bits('s', %79b53dff49b4)
%e48146d62faf = set_f(0, 's', %a4617d4216b7) @0
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_f(0, 's', %a4617d4216b7) @0

21ff8fd3
%0ab45c2fbc5e = or_(32, %72e9f87e3304, %94f483306dd1)
%5b7a465a2111 = set_f(31, 's', %687bee312349) @0
%687bee312349 = f_from_bits('s', %0ab45c2fbc5e)
%72e9f87e3304 = and_(32, %f5bc975d17a4, 0x80000000:32)
%94f483306dd1 = and_(32, %f5bc975d17a4, 0x7fffffff:32)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
%f5bc975d17a4 = f_bits('s', %ed7baf56b306)
%f5bc975d17a4 = f_bits('s', %ed7baf56b306)
set_f(31, 's', %687bee312349) @0

21550553
%1cc86ed53756 = and_(32, %9cc0f4476bf1, 0x7fffffff:32)
%312ccb93ac0b = f(10, 's') @0
%41c2c0b248cf = or_(32, %1cc86ed53756, %70d528e7d420)
%4a698eb9877d = f_from_bits('s', %41c2c0b248cf)
%70d528e7d420 = and_(32, %9e9795c79c68, 0x80000000:32)
%9cc0f4476bf1 = f_bits('s', %312ccb93ac0b)
%9e9795c79c68 = f_bits('s', %ede313efa50c)
%ede313efa50c = f(21, 's') @0
%f9b0672755f7 = set_f(10, 's', %4a698eb9877d) @0
set_f(10, 's', %4a698eb9877d) @0

20aa8ad3
%312ccb93ac0b = f(10, 's') @0
%3fa14b5576d7 = and_(32, %9cc0f4476bf1, 0x80000000:32)
%5b39018c75f4 = f_from_bits('s', %9e7a61de05c7)
%8150bc4051a9 = set_f(21, 's', %5b39018c75f4) @0
%9cc0f4476bf1 = f_bits('s', %312ccb93ac0b)
%9e7a61de05c7 = or_(32, %3fa14b5576d7, %d117b8e9d427)
%9e9795c79c68 = f_bits('s', %ede313efa50c)
%d117b8e9d427 = and_(32, %9e9795c79c68, 0x7fffffff:32)
%ede313efa50c = f(21, 's') @0
set_f(21, 's', %5b39018c75f4) @0

20410853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%10ab42277a8b = set_f(16, 's', %2aa4c1e0d896) @0
%2a6ebffa99d5 = f_bits('s', %030fe6ec5230)
%2aa4c1e0d896 = f_from_bits('s', %5db0690ad484)
%39fe1ee10843 = f_bits('s', %002ad5caeb19)
%5db0690ad484 = or_(32, %5fcca18a4504, %c6ac7ca70b52)
%5fcca18a4504 = and_(32, %39fe1ee10843, 0x80000000:32)
%c6ac7ca70b52 = and_(32, %2a6ebffa99d5, 0x7fffffff:32)
set_f(16, 's', %2aa4c1e0d896) @0
