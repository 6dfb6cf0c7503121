; The same purpose, for llvmlite: it writes ET_REL.
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @plus(ptr addrspace(1) %p, i32 %n) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %at = getelementptr i32, ptr addrspace(1) %p, i32 %id
  %old = load i32, ptr addrspace(1) %at
  %new = add i32 %old, %n
  store i32 %new, ptr addrspace(1) %at
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { "amdgpu-no-implicitarg-ptr" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
