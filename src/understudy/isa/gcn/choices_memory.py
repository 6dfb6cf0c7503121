"""What the manuals leave open about memory, or disagree about, and our answers; part of `choices.CHOICES`."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice

MEMORY_CHOICES: Final = (
    Choice(
        "gcn/register-range",
        "What a load or store does whose last registers do not exist.",
        "Registers beyond v255 or operand code 127 are not written and read as register 0.",
        "The manuals say so for single operands out of range.",
    ),
    Choice(
        "gcn/smem-alignment",
        "Whether scalar atomics must be aligned.",
        "Scalar addresses are rounded down to a dword, those of 64-bit atomics to 8 bytes.",
        "The manuals say so for loads and stores.",
    ),
    Choice(
        "gcn/flat-scratch",
        "Which register of FLAT_SCRATCH has the offset on GFX7 and GFX8: the ROCm Code Object document says the lower "
        "one of both offset and size. What a lane beyond the size does.",
        "The upper one has the offset from SH_HIDDEN_PRIVATE_BASE in units of 256 bytes, the lower one the bytes of a "
        "lane; beyond them, or beyond the packet's private_segment_size, an access faults. GFX9: a 64-bit address. "
        "SCRATCH instructions of GFX9 go the same way.",
        "Prologues that LLVM and AMD's own compiler write for all three.",
    ),
    Choice(
        "gcn/flat-offset",
        "What bit 12 of the offset does in FLAT instructions of GFX9: LLVM's disassembler shows it as 4096, its "
        "assembler takes 12 bits only.",
        "Nothing; the text shows it, so that it assembles to the same bits.",
        "The manual: FLAT has 12 bits without a sign, the highest bit of the field is ignored.",
    ),
    Choice(
        "gcn/pointer-size",
        "Which addresses have 32 bits with PTR32 (ADDRESS_MODE 32): manuals say it of FLAT, later ones of GLOBAL too, "
        "the kernel driver of S_LOAD and FLAT.",
        "Those in VGPRs of FLAT and GLOBAL, SADDR of GLOBAL, SBASE of scalar loads, stores and atomics: one register, "
        "the next is not read (but v255 is refused, since decoding does not know the mode). Resources (V#, T#), addr64 "
        "of MUBUF and the pc keep their forms.",
        "The driver's description of HSA32; a later manual: the size of the address component depends on the mode.",
    ),
    Choice(
        "gcn/pointer-apertures",
        "The manuals leave out the aperture check with addresses of 32 bits.",
        "Bits 31:16 of address + offset are compared with the aperture, which has 64 KiB; an access lies where its "
        "first byte does. src_shared_base and the like are such addresses, 0 above. SCRATCH has no such window.",
        '"Flat addressing" of the ROCm Code Object document, small model; the kernel driver: always 64 KiB.',
    ),
    Choice(
        "gcn/pointer-overflow",
        "What an address of 32 bits plus an offset reaches beyond 4 GiB.",
        "Nothing, which is a fault: sums have 64 bits and do not wrap around.",
        "No source says that it wraps, and a fault tells what happened.",
    ),
    Choice(
        "gcn/lds-alignment",
        "What a misaligned access to LDS does; the oldest manuals round every address down.",
        "GFX7 and GFX8 round down to the size (96 bits: to 16 bytes). GFX9 takes any address. Atomics round down.",
        "LLVM uses misaligned LDS accesses from GFX9 on only, and 16-byte alignment for 96 bits before.",
    ),
    Choice(
        "gcn/lds-clamp",
        "How accesses that end beyond M0 are clamped.",
        "They read 0 and store nothing, as a whole.",
        "As for the end of the allocation.",
    ),
    Choice(
        "gcn/lds-order",
        "What two lanes that write one place, or read what another writes, do to each other in one instruction.",
        "Atomics go lane after lane. Of operations in two parts, the first parts of all lanes come first, src2 "
        "operands before all; but translated code may do ds_write2 for some lanes after the others.",
        "Any order is allowed: two lanes that write one place in one instruction race.",
    ),
    Choice(
        "gcn/lds-float-add",
        "Whether ds_add_f32 flushes denormals, and how it rounds.",
        "It keeps denormals whatever MODE says and rounds to nearest even, as all float atomics do.",
        "LLVM's authors say that LDS follows MODE's denormals but not its rounding; a program that lets denormals be "
        "flushed may keep them.",
    ),
    Choice(
        "gcn/append-base",
        "AMD's manual gives ds_append and ds_consume an address M0.base, which is M0[31:16] for GDS.",
        "M0[31:16] + offset for GDS, M0[15:0] + offset for LDS.",
        "LLVM puts the plain LDS address into M0.",
    ),
    Choice(
        "gcn/ordered-count",
        "ds_ordered_count serves waves in the order of their launch.",
        "In the order in which they come to it. Operation 3, wrap, is not modelled: it lacks an operand.",
        "Waves run in a seeded order anyway.",
    ),
    Choice(
        "gcn/swizzle-rotate",
        "The pseudo-code of ds_swizzle's rotation leaves the group of 32 lanes.",
        "It rotates within 32 lanes.",
        "The manual's own examples do.",
    ),
    Choice(
        "gcn/buffer-range",
        "Manuals and drivers disagree on when NUM_RECORDS counts bytes and when records.",
        "GFX7: records where STRIDE is not 0; GFX8: where the buffer is also swizzled; GFX9: where the instruction "
        "also has an index. Bytes: the first byte of each dword must lie below NUM_RECORDS; typed accesses and "
        "atomics are in range or not as a whole.",
        "What open drivers found on hardware, with AMD's rules for each of the two cases.",
    ),
    Choice(
        "gcn/buffer-alignment",
        "The oldest manuals round buffer addresses down to the size of the access.",
        "Loads and stores take any address, atomics round down.",
        "HSA runtimes set the memory pipeline to unaligned accesses.",
    ),
    Choice(
        "gcn/buffer-order",
        "Which of two lanes that store to one place wins.",
        "The higher one; but lanes partly out of range store after others, of which translated code may see fewer.",
        "Any order is allowed: such lanes race.",
    ),
    Choice(
        "gcn/lds-transfer",
        "Whether the instruction offset counts for the LDS address of loads to LDS.",
        "It counts on both sides: M0[15:0] + offset + 4 * lane.",
        "AMD's later manuals and LLVM.",
    ),
    Choice(
        "gcn/tfe",
        "What the register behind the data gets with tfe or lwe.",
        "0: no fail. All memory is resident.",
        "The manuals reserve it for partially resident textures.",
    ),
    Choice(
        "gcn/format-missing",
        "What components that a data format does not have read as.",
        "0, 0, 0, 1. Out of range all that come from memory are 0. Data format 0 reads 0 and stores nothing.",
        "As graphics interfaces define it.",
    ),
    Choice(
        "gcn/format-write",
        "How registers are converted to what memory holds.",
        "Clamped, rounded to nearest even, NaN as 0 (but as a NaN in floats). Components not given are 0.",
        "OpenCL asks image writes to saturate, and compilers leave it to the instruction.",
    ),
    Choice(
        "gcn/d16-layout",
        "How 16-bit components lie in registers.",
        "GFX8 before gfx810: one to a register, 0 above; gfx810 and GFX9: two. Floats round to nearest even.",
        "LLVM's feature of unpacked 16-bit data.",
    ),
    Choice(
        "gcn/image-layout",
        "Tiled layouts and mip levels are the driver's business, and not in the manuals.",
        "Only linear images of one level and sample: texel (x, y, z) lies at ((z * height + y) * pitch + x) elements.",
        "What the descriptor alone can say.",
    ),
    Choice(
        "gcn/image-r128",
        "A resource of 128 bits has no pitch.",
        "Its width rounded up to 64 texels, or to 256 bytes where that is more.",
        "The least pitch of linear images.",
    ),
    Choice(
        "gcn/image-outside",
        "What loads outside of an image give.",
        "0 for every component that comes from memory; stores do nothing, atomics give 0.",
        "As for buffers.",
    ),
    Choice(
        "gcn/image-sizes",
        "What image_get_resinfo gives for dimensions an image does not have.",
        "1; arrays of one dimension have their slices second. 6 faces are one slice of a cube.",
        "As drivers of these chips expect.",
    ),
    Choice(
        "gcn/filter-weights",
        "Hardware rounds the position between texels to fractions of 1/256.",
        "Weights are exact, and the sum is rounded once. Integers are not filtered.",
        "No manual gives the rounding; OpenCL's own definition is exact.",
    ),
    Choice(
        "gcn/lod",
        "How the level of detail follows from gradients, and what else it does with one level.",
        "log2 of the longer gradient in texels. Up to 0 the magnifying filter, then the minifying one.",
        "The usual definition; lanes 4n to 4n + 3 are a quad.",
    ),
    Choice(
        "gcn/cube-edges",
        "Cube filters continue on the neighbouring face.",
        "They do not: coordinates clamp to the face.",
        "OpenCL has no cubes; graphics is not modelled.",
    ),
    Choice(
        "gcn/gather-component",
        "Whether gather4 chooses its component before or after DST_SEL.",
        "After.",
        "As graphics interfaces define it.",
    ),
)
"""All of them, in the order of the families."""
