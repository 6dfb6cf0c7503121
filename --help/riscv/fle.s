a0000053
%57f4d236c98c = zext(64, 1, %e796f2a3175f)
%903655304c78 = set_x(0, %57f4d236c98c) @0
%e796f2a3175f = fle('s', %f56750cb512d, %f56750cb512d)
%f56750cb512d = f(0, 's') @0
%f56750cb512d = f(0, 's') @0
set_x(0, %57f4d236c98c) @0

a1ff8fd3
%85c4d3aa8fe1 = zext(64, 1, %ea08af702bbc)
%e91fe7b99567 = set_x(31, %85c4d3aa8fe1) @0
%ea08af702bbc = fle('s', %ed7baf56b306, %ed7baf56b306)
%ed7baf56b306 = f(31, 's') @0
%ed7baf56b306 = f(31, 's') @0
set_x(31, %85c4d3aa8fe1) @0

a1550553
%312ccb93ac0b = f(10, 's') @0
%7a6793ff4f93 = fle('s', %312ccb93ac0b, %ede313efa50c)
%ed72cace3754 = set_x(10, %f8bc76c68dbf) @0
%ede313efa50c = f(21, 's') @0
%f8bc76c68dbf = zext(64, 1, %7a6793ff4f93)
set_x(10, %f8bc76c68dbf) @0

a0aa8ad3
%312ccb93ac0b = f(10, 's') @0
%c906f9506671 = fle('s', %ede313efa50c, %312ccb93ac0b)
%d72786eb0003 = zext(64, 1, %c906f9506671)
%da99fb814ab3 = set_x(21, %d72786eb0003) @0
%ede313efa50c = f(21, 's') @0
set_x(21, %d72786eb0003) @0

a0410853
%002ad5caeb19 = f(4, 's') @0
%030fe6ec5230 = f(2, 's') @0
%14bf20a8074d = zext(64, 1, %705bb0a359c1)
%705bb0a359c1 = fle('s', %030fe6ec5230, %002ad5caeb19)
%d6c2609df258 = set_x(16, %14bf20a8074d) @0
set_x(16, %14bf20a8074d) @0
