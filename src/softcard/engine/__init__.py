"""The engines that execute guest machine code: GCN for AMD GPUs, and RISC-V for RefSi."""
