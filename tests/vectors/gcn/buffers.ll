; Buffer resources (V#, 4 dwords at the first argument): range checks, strides, formats, atomics.
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()
declare <2 x i32> @llvm.amdgcn.raw.buffer.load.v2i32(<4 x i32>, i32, i32, i32)
declare void @llvm.amdgcn.raw.buffer.store.i32(i32, <4 x i32>, i32, i32, i32)
declare i32 @llvm.amdgcn.struct.buffer.load.i32(<4 x i32>, i32, i32, i32, i32)
declare void @llvm.amdgcn.struct.buffer.store.i32(i32, <4 x i32>, i32, i32, i32, i32)
declare <4 x float> @llvm.amdgcn.struct.buffer.load.format.v4f32(<4 x i32>, i32, i32, i32, i32)
declare void @llvm.amdgcn.struct.buffer.store.format.v4f32(<4 x float>, <4 x i32>, i32, i32, i32, i32)
declare <4 x i32> @llvm.amdgcn.raw.tbuffer.load.v4i32(<4 x i32>, i32, i32, i32, i32)
declare i32 @llvm.amdgcn.raw.buffer.atomic.add.i32(i32, <4 x i32>, i32, i32, i32)
declare i32 @llvm.amdgcn.s.buffer.load.i32(<4 x i32>, i32, i32)

; out[i] = two dwords at 8 * i + 16: 0 beyond the buffer
define amdgpu_kernel void @buffer_raw(ptr addrspace(4) %r, ptr addrspace(1) %out) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %rsrc = load <4 x i32>, ptr addrspace(4) %r
  %o = shl i32 %i, 3
  %v = call <2 x i32> @llvm.amdgcn.raw.buffer.load.v2i32(<4 x i32> %rsrc, i32 %o, i32 16, i32 0)
  %p = getelementptr <2 x i32>, ptr addrspace(1) %out, i32 %i
  store <2 x i32> %v, ptr addrspace(1) %p
  ret void
}

; Stores beyond the buffer vanish.
define amdgpu_kernel void @buffer_store(ptr addrspace(4) %r, i32 %step) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %rsrc = load <4 x i32>, ptr addrspace(4) %r
  %o = mul i32 %i, %step
  call void @llvm.amdgcn.raw.buffer.store.i32(i32 %i, <4 x i32> %rsrc, i32 %o, i32 0, i32 0)
  ret void
}

; out[i] = record i + 1 (a stride of 12 bytes), its third dword
define amdgpu_kernel void @buffer_struct(ptr addrspace(4) %r, ptr addrspace(1) %out) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %rsrc = load <4 x i32>, ptr addrspace(4) %r
  %n = add i32 %i, 1
  %v = call i32 @llvm.amdgcn.struct.buffer.load.i32(<4 x i32> %rsrc, i32 %n, i32 8, i32 0, i32 0)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %v, ptr addrspace(1) %p
  ret void
}

; The same buffer read and written through formats.
define amdgpu_kernel void @buffer_format(ptr addrspace(4) %r, ptr addrspace(4) %w, ptr addrspace(1) %out) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %rsrc = load <4 x i32>, ptr addrspace(4) %r
  %wsrc = load <4 x i32>, ptr addrspace(4) %w
  %v = call <4 x float> @llvm.amdgcn.struct.buffer.load.format.v4f32(<4 x i32> %rsrc, i32 %i, i32 0, i32 0, i32 0)
  call void @llvm.amdgcn.struct.buffer.store.format.v4f32(<4 x float> %v, <4 x i32> %wsrc, i32 %i, i32 0, i32 0, i32 0)
  %p = getelementptr <4 x float>, ptr addrspace(1) %out, i32 %i
  store <4 x float> %v, ptr addrspace(1) %p
  ret void
}

; Format in the instruction: 8_8_8_8 uint (data format 10, number format 4)
define amdgpu_kernel void @buffer_typed(ptr addrspace(4) %r, ptr addrspace(1) %out) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %rsrc = load <4 x i32>, ptr addrspace(4) %r
  %o = shl i32 %i, 2
  %v = call <4 x i32> @llvm.amdgcn.raw.tbuffer.load.v4i32(<4 x i32> %rsrc, i32 %o, i32 0, i32 74, i32 0)
  %p = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %i
  store <4 x i32> %v, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @buffer_count(ptr addrspace(4) %r, ptr addrspace(1) %in) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %rsrc = load <4 x i32>, ptr addrspace(4) %r
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %i
  %n = load i32, ptr addrspace(1) %p
  %o = shl i32 %n, 2
  %old = call i32 @llvm.amdgcn.raw.buffer.atomic.add.i32(i32 1, <4 x i32> %rsrc, i32 %o, i32 0, i32 0)
  ret void
}

; Scalar loads check the range too.
define amdgpu_kernel void @buffer_scalar(ptr addrspace(4) %r, ptr addrspace(1) %out, i32 %offset) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %rsrc = load <4 x i32>, ptr addrspace(4) %r
  %v = call i32 @llvm.amdgcn.s.buffer.load.i32(<4 x i32> %rsrc, i32 %offset, i32 0)
  %z = call i32 @llvm.amdgcn.s.buffer.load.i32(<4 x i32> %rsrc, i32 4096, i32 0)
  %k = mul i32 %v, %i
  %s = add i32 %k, %z
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %s, ptr addrspace(1) %p
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-implicitarg-ptr" }
