; Images and samplers: what OpenCL C needs a device library for is written with the instructions' own names here.
; The first arguments are addresses of T# (8 dwords) and S# (4 dwords).
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare <4 x float> @llvm.amdgcn.image.load.2d.v4f32.i32(i32, i32, i32, <8 x i32>, i32, i32)
declare <4 x i32> @llvm.amdgcn.image.load.2darray.v4i32.i32(i32, i32, i32, i32, <8 x i32>, i32, i32)
declare float @llvm.amdgcn.image.load.3d.f32.i32(i32, i32, i32, i32, <8 x i32>, i32, i32)
declare void @llvm.amdgcn.image.store.2d.v4f32.i32(<4 x float>, i32, i32, i32, <8 x i32>, i32, i32)
declare <4 x float> @llvm.amdgcn.image.sample.lz.2d.v4f32.f32(i32, float, float, <8 x i32>, <4 x i32>, i1, i32, i32)
declare <4 x float> @llvm.amdgcn.image.gather4.lz.2d.v4f32.f32(i32, float, float, <8 x i32>, <4 x i32>, i1, i32, i32)
declare i32 @llvm.amdgcn.image.atomic.add.2d.i32.i32(i32, i32, i32, <8 x i32>, i32, i32)
declare <4 x i32> @llvm.amdgcn.image.getresinfo.2d.v4i32.i32(i32, i32, <8 x i32>, i32, i32)

define internal i32 @global_id() alwaysinline {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %b = shl i32 %g, 6
  %i = or i32 %b, %l
  ret i32 %i
}

; out[i] = texel (i mod 8, i / 8), all four components
define amdgpu_kernel void @image_load(ptr addrspace(4) %t, ptr addrspace(1) %out) #0 {
  %i = call i32 @global_id()
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %x = and i32 %i, 7
  %y = lshr i32 %i, 3
  %v = call <4 x float> @llvm.amdgcn.image.load.2d.v4f32.i32(i32 15, i32 %x, i32 %y, <8 x i32> %rsrc, i32 0, i32 0)
  %p = getelementptr <4 x float>, ptr addrspace(1) %out, i32 %i
  store <4 x float> %v, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @image_store(ptr addrspace(4) %t, ptr addrspace(1) %in) #0 {
  %i = call i32 @global_id()
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %x = and i32 %i, 7
  %y = lshr i32 %i, 3
  %p = getelementptr <4 x float>, ptr addrspace(1) %in, i32 %i
  %v = load <4 x float>, ptr addrspace(1) %p
  call void @llvm.amdgcn.image.store.2d.v4f32.i32(<4 x float> %v, i32 15, i32 %x, i32 %y, <8 x i32> %rsrc, i32 0, i32 0)
  ret void
}

; Three layers: the layer is the work-item's number mod 3, so that neighbours read different ones.
define amdgpu_kernel void @image_array(ptr addrspace(4) %t, ptr addrspace(1) %out) #0 {
  %i = call i32 @global_id()
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %x = and i32 %i, 7
  %y = lshr i32 %i, 3
  %z = urem i32 %i, 3
  %v = call <4 x i32> @llvm.amdgcn.image.load.2darray.v4i32.i32(i32 15, i32 %x, i32 %y, i32 %z, <8 x i32> %rsrc, i32 0, i32 0)
  %p = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %i
  store <4 x i32> %v, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @image_volume(ptr addrspace(4) %t, ptr addrspace(1) %out) #0 {
  %i = call i32 @global_id()
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %x = and i32 %i, 3
  %s = lshr i32 %i, 2
  %y = and i32 %s, 3
  %z = lshr i32 %i, 4
  %v = call float @llvm.amdgcn.image.load.3d.f32.i32(i32 1, i32 %x, i32 %y, i32 %z, <8 x i32> %rsrc, i32 0, i32 0)
  %p = getelementptr float, ptr addrspace(1) %out, i32 %i
  store float %v, ptr addrspace(1) %p
  ret void
}

; out[i] = sample at coordinates[i]
define amdgpu_kernel void @image_sample(ptr addrspace(4) %t, ptr addrspace(4) %s, ptr addrspace(1) %at, ptr addrspace(1) %out) #0 {
  %i = call i32 @global_id()
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %samp = load <4 x i32>, ptr addrspace(4) %s
  %q = getelementptr <2 x float>, ptr addrspace(1) %at, i32 %i
  %uv = load <2 x float>, ptr addrspace(1) %q
  %u = extractelement <2 x float> %uv, i32 0
  %v = extractelement <2 x float> %uv, i32 1
  %c = call <4 x float> @llvm.amdgcn.image.sample.lz.2d.v4f32.f32(i32 15, float %u, float %v, <8 x i32> %rsrc, <4 x i32> %samp, i1 false, i32 0, i32 0)
  %p = getelementptr <4 x float>, ptr addrspace(1) %out, i32 %i
  store <4 x float> %c, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @image_gather(ptr addrspace(4) %t, ptr addrspace(4) %s, ptr addrspace(1) %at, ptr addrspace(1) %out) #0 {
  %i = call i32 @global_id()
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %samp = load <4 x i32>, ptr addrspace(4) %s
  %q = getelementptr <2 x float>, ptr addrspace(1) %at, i32 %i
  %uv = load <2 x float>, ptr addrspace(1) %q
  %u = extractelement <2 x float> %uv, i32 0
  %v = extractelement <2 x float> %uv, i32 1
  %c = call <4 x float> @llvm.amdgcn.image.gather4.lz.2d.v4f32.f32(i32 1, float %u, float %v, <8 x i32> %rsrc, <4 x i32> %samp, i1 false, i32 0, i32 0)
  %p = getelementptr <4 x float>, ptr addrspace(1) %out, i32 %i
  store <4 x float> %c, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @image_count(ptr addrspace(4) %t, ptr addrspace(1) %in) #0 {
  %i = call i32 @global_id()
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %i
  %n = load i32, ptr addrspace(1) %p
  %x = and i32 %n, 7
  %s = lshr i32 %n, 3
  %y = and i32 %s, 1
  %old = call i32 @llvm.amdgcn.image.atomic.add.2d.i32.i32(i32 1, i32 %x, i32 %y, <8 x i32> %rsrc, i32 0, i32 0)
  ret void
}

define amdgpu_kernel void @image_size(ptr addrspace(4) %t, ptr addrspace(1) %out) #0 {
  %rsrc = load <8 x i32>, ptr addrspace(4) %t
  %v = call <4 x i32> @llvm.amdgcn.image.getresinfo.2d.v4i32.i32(i32 15, i32 0, <8 x i32> %rsrc, i32 0, i32 0)
  store <4 x i32> %v, ptr addrspace(1) %out
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-implicitarg-ptr" }
