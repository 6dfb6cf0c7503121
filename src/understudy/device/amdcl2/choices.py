"""The gaps of the AMD OpenCL 2.0 ABI document and our answers.

Order of trust: files that drivers wrote, files that an independent assembler wrote, AMD's public runtime for the same
chips, the document.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice


def _choice(name: str, gap: str, answer: str, reason: str) -> Choice:
    return Choice(f"amdcl2/{name}", gap, answer, reason)


_FILES: Final = "files that an assembler and drivers wrote"
_RUNTIME: Final = "AMD's public runtime does so"
_OPEN: Final = "nothing decides it"

CHOICES: Final[tuple[Choice, ...]] = (
    # ---- containers ----
    _choice(
        "processor",
        "which processor a file is for",
        "the ISA note of the inner ELF file; where there is none, the GFX7/8/9 of the metadata, then e_flags by the "
        "driver that the file shows",
        "the numbers in e_flags changed from driver to driver, and the code object's machine version is 0",
    ),
    _choice(
        "unknown-stepping",
        "ISA versions that nobody has described",
        "run on the first known processor of the same generation",
        "steppings of a generation differ in little that kernels of this time use",
    ),
    _choice(
        "driver",
        "which driver wrote a file",
        "the oldest that writes what the file shows, of those with which containers changed or the numbers of devices",
        "no field says it",
    ),
    _choice(
        "half-type",
        "the metadata's number for half",
        "10",
        "the gap between the integer and the float types; " + _OPEN,
    ),
    # ---- registers ----
    _choice(
        "user-data",
        "user data registers of weaker features under stronger ones, and on GFX9",
        "the strongest of usegeneric, useenqueue, usesetup, useargs counts; GFX9 always has FLAT_SCRATCH's two, behind "
        "the others: 6, 8, 10, 10, 12 registers",
        _FILES + "; the document's 10 for GFX9 is right for usesetup and useenqueue only",
    ),
    _choice(
        "pointer-order",
        "which pointers there are",
        "with useargs alone the only pointer is that of the arguments; with usegeneric the second is the special "
        "buffer and the third that of the arguments",
        _FILES,
    ),
    _choice(
        "setup-rest",
        "the rest of the setup buffer",
        "it is the AQL packet of the dispatch: header, private memory, LDS of local pointers (without that of the "
        "kernel's header), kernel object, arguments",
        "the ABI is that of HSA, and field by field the same; " + _RUNTIME,
    ),
    _choice(
        "flat-scratch",
        "FLAT_SCRATCH's registers on other generations and without usegeneric",
        "S8-S9 with useenqueue; on GFX9 a pair holds the address of the queue's scratch instead of offset and size",
        _FILES,
    ),
    _choice(
        "register-counts",
        "kernels whose header counts fewer scalar registers than they get",
        "all 102 can be used; vector registers are those of rsrc1",
        "the assembler's count leaves out GFX9's two extra user data registers",
    ),
    # ---- arguments ----
    _choice(
        "vec3",
        "vectors of 3 in files of driver 15.7",
        "3 elements; 4 from driver 1912.05 on",
        "the sizes of argument buffers in drivers' files",
    ),
    _choice(
        "small",
        "which small types take how much",
        "their own size, and so char 1, short 2, char2 2; 3 bytes only char3 in files of driver 15.7",
        _FILES,
    ),
    _choice(
        "handles",
        "images and samplers in 32-bit programs, for which the document's 4 bytes are an erratum",
        "8 bytes, aligned to 8, of which the upper 4 are 0, as in 64-bit programs; pointers, queues and structures "
        "take 4",
        "drivers' kernels load pairs of registers there, and AMD's public runtime passes handles of 64 bits",
    ),
    _choice(
        "segment-size",
        "padding of the argument buffer",
        "rounded up to 16 bytes from driver 1912.05 on; what the header asks for beyond is 0",
        _FILES,
    ),
    _choice(
        "structures",
        "who owns the structure that an argument points to",
        "a copy is made for each launch, and is writable",
        "OpenCL passes structures by value",
    ),
    _choice(
        "local-pointers",
        "what a local pointer is, and how its LDS is aligned",
        "an offset in LDS: static LDS comes first, then each argument's, aligned like what it points to as metadata "
        "says, or to 16 bytes where it says nothing",
        "code adds the low dword to static offsets; " + _RUNTIME,
    ),
    _choice(
        "lds-size",
        "LDS of a work-group, for which the header's rsrc2 has 0",
        "the header's group segment size and what local pointers ask for, in steps of 512 bytes",
        "files of drivers have 0 there with any amount of LDS",
    ),
    _choice(
        "sizes",
        "a local size that does not divide the global size, and none at all",
        "groups at the edge are partial; without a size it is what the kernel requires, else 64 in x",
        "kernels compute the size of the last group themselves",
    ),
    # ---- hidden pointers ----
    _choice(
        "printf-buffer",
        "what printf_buffer points to",
        "64 KiB, of which the first dword is 0 and the second the bytes that follow; what kernels write is given back "
        "as it is; 0 for kernels whose metadata has no formats",
        _RUNTIME + " to begin with; the records are undocumented",
    ),
    _choice(
        "vqueue",
        "what vqueue_pointer and aqlwrap_pointer point to, and when they are there",
        "the virtual queue of AMD's runtime, at first 2048 slots of 1088 bytes of arguments, 1024 events, wait lists "
        "of 8; entries of wait lists and kernel table are as long as pointers, the latter by kernel_index; "
        "0 for kernels that neither enqueue nor take a queue",
        "its code for the device side reads these fields, and so do drivers' kernels",
    ),
    _choice(
        "child-memory",
        "private memory and LDS of enqueued kernels",
        "LDS is what the packet says and what the kernel's header says, together; private memory the larger of the two",
        "AMD's code for the device side writes the LDS of local pointers only; its scheduler adds the header's",
    ),
    _choice(
        "scheduler",
        "when enqueued kernels run",
        "after the kernel that the host launched, one at a time, the lowest slot that may start first; a fault ends "
        "the run, and the queue begins anew",
        "kernels that wait as OpenCL asks cannot tell",
    ),
    # ---- images ----
    _choice(
        "image-object",
        "the rest of an image object",
        "dword 10 is the width, dword 11 is 0; objects are aligned to pages",
        _RUNTIME + "; drivers' kernels read dword 10",
    ),
    _choice(
        "image-layout",
        "how texels lie in memory",
        "linear, rows a multiple of 64 texels and 256 bytes apart, one level; depth and last_array of arrays both name "
        "the last slice (GFX9 has depth only)",
        "what the descriptor can say on all generations without a driver's tables",
    ),
    _choice(
        "image-buffer",
        "the resource of a 1D buffer image",
        "a V# in dwords 0-3 whose records are texels; on GFX8 NUM_RECORDS counts bytes",
        _RUNTIME,
    ),
    _choice(
        "image-formats",
        "combinations of channel order and type that the tables do not rule out",
        "those that the hardware has a format for; others are refused",
        _RUNTIME,
    ),
    _choice(
        "sampler-object",
        "the sampler resource, and addressing that OpenCL leaves undefined",
        "4 dwords of S#, padded to 8; NONE is REPEAT; the border is transparent black",
        _RUNTIME,
    ),
    # ---- memory ----
    _choice(
        "addresses",
        "where things lie",
        "32-bit programs below 4 GiB, 64-bit ones above 64 GiB, every buffer on a page of its own with nothing behind",
        "code that loses half an address or runs over an end then faults",
    ),
)
"""All choices, by subject."""
