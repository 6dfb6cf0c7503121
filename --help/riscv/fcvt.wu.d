c2100053
%0cdd4bb87145 = set_x(0, %4bd2203303dd) @0
%1e40b7abcf63 = f_to_int(32, False, 'd', %7aae32394321, 0)
%4bd2203303dd = sext(64, 32, %1e40b7abcf63)
%7aae32394321 = f(0, 'd') @0
set_x(0, %4bd2203303dd) @0

c21fffd3
%9be22ac5ee86 = sext(64, 32, %d161d5a9a680)
%b86a220652c0 = f(31, 'd') @0
%b9a960ceec4e = set_x(31, %9be22ac5ee86) @0
%d161d5a9a680 = f_to_int(32, False, 'd', %b86a220652c0, 7)
set_x(31, %9be22ac5ee86) @0

c2155553
%62da237bc537 = f(10, 'd') @0
%800e0d077d32 = f_to_int(32, False, 'd', %62da237bc537, 5)
%9aa2d5007886 = set_x(10, %d149f41e5f93) @0
%d149f41e5f93 = sext(64, 32, %800e0d077d32)
set_x(10, %d149f41e5f93) @0

c21aaad3
%234be3eaeb2d = sext(64, 32, %323450c526c9)
%323450c526c9 = f_to_int(32, False, 'd', %d5de765faf78, 2)
%8bab4c7edacc = set_x(21, %234be3eaeb2d) @0
%d5de765faf78 = f(21, 'd') @0
set_x(21, %234be3eaeb2d) @0

c2110853
%70d2150dfe60 = sext(64, 32, %aa5cc29c019c)
%815d584a1e43 = set_x(16, %70d2150dfe60) @0
%aa5cc29c019c = f_to_int(32, False, 'd', %f0914d36dfcb, 0)
%f0914d36dfcb = f(2, 'd') @0
set_x(16, %70d2150dfe60) @0
