    .amdgcn_target "amdgcn-amd-amdhsa--gfx900"
    .text
    .globl scale
    .p2align 8
    .type scale,@function
scale:                                   ; x[i] = 3 x[i], an array of 64 numbers
    s_load_dwordx2 s[0:1], s[0:1], 0x0
    v_lshlrev_b32 v0, 2, v0
    s_waitcnt lgkmcnt(0)
    global_load_dword v1, v0, s[0:1]
    s_waitcnt vmcnt(0)
    v_mul_lo_u32 v1, v1, 3
    global_store_dword v0, v1, s[0:1]
    s_endpgm
    .section .rodata,"a"
    .p2align 6
    .amdhsa_kernel scale
      .amdhsa_user_sgpr_kernarg_segment_ptr 1
      .amdhsa_kernarg_size 8
      .amdhsa_next_free_vgpr 2
      .amdhsa_next_free_sgpr 2
    .end_amdhsa_kernel
