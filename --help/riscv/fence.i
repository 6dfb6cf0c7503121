0000100f
%c777a1508185 = fence_i() @0
fence_i() @0

ffff9f8f
%c777a1508185 = fence_i() @0
fence_i() @0

5555150f
%c777a1508185 = fence_i() @0
fence_i() @0

aaaa9a8f
%c777a1508185 = fence_i() @0
fence_i() @0

0841180f
%c777a1508185 = fence_i() @0
fence_i() @0
