"""The engines that execute machine code: GCN for AMD GPUs, and RISC-V for RefSi."""
