"""Every sentence of the AMD OpenCL 2.0 ABI document that a runtime can obey or break.

The order is the document's; `clause` is the heading the sentence stands under.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"amdcl2/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN

_PASSING: Final = "Passing options"
NO_FEATURES = _rule("no-features", _PASSING, "if no feature is enabled only 4 user data registers are used", _CHOSEN)
USEARGS = _rule(
    "useargs", _PASSING, "with useargs 6 user data registers are used: 4-5 are the argument's pointer", _CHOSEN
)
USESETUP = _rule(
    "usesetup", _PASSING, "with usesetup 8 are used: 4-5 kernel setup pointer, 6-7 argument's pointer", _CHOSEN
)
USEENQUEUE = _rule(
    "useenqueue", _PASSING, "with useenqueue 10 are used: 4-5 kernel setup pointer, 6-7 argument's pointer"
)
USEGENERIC = _rule(
    "usegeneric", _PASSING, "with usegeneric 12 are used: 4-5 kernel setup pointer, 8-9 argument's pointer"
)
VEGA = _rule("vega", _PASSING, "on GFX9 10 are used: 4-5 kernel setup pointer, 6-7 argument's pointer", _CHOSEN)

_SETUP: Final = "Argument passing and kernel setup"
SETUP_POINTER = _rule("setup-pointer", _SETUP, "the first pointer points to the setup buffer", _CHOSEN)
SETUP_DIMENSIONS = _rule("setup-dimensions", _SETUP, "bits 16-31 of dword 0 are the number of dimensions")
SETUP_LOCAL_SIZE = _rule(
    "setup-local-size", _SETUP, "dword 1 holds the local size X and Y, bits 0-15 of dword 2 the local size Z"
)
SETUP_GLOBAL_SIZE = _rule("setup-global-size", _SETUP, "dwords 3-5 hold the global size for each dimension")
ARGUMENT_POINTER = _rule("argument-pointer", _SETUP, "the second pointer points to the argument's buffer", _CHOSEN)
GLOBAL_OFFSETS = _rule("global-offsets", _SETUP, "the argument's buffer begins with the global offsets for X, Y and Z")
HIDDEN_POINTERS = _rule(
    "hidden-pointers", _SETUP, "printf_buffer, vqueue_pointer and aqlwrap_pointer follow the global offsets"
)
SETUP_ARGUMENT_SIZE = _rule(
    "setup-argument-size", _SETUP, "setup arguments take 64 bits in 64-bit programs, 32 bits in 32-bit programs"
)
USER_ARGUMENTS = _rule("user-arguments", _SETUP, "the arguments defined for the kernel follow the setup arguments")
POINTER_SIZE = _rule(
    "pointer-size",
    _SETUP,
    "pointers, command queues, images, samplers and structures take 8 bytes, 4 in 32-bit programs",
    _CHOSEN,
)
VECTOR_OF_3 = _rule("vector-of-3", _SETUP, "a vector of 3 takes the bytes of a vector of 4", _CHOSEN)
SMALL_TYPES = _rule("small-types", _SETUP, "smaller types take 1 to 3 bytes", _CHOSEN)
ALIGNMENT = _rule("alignment", _SETUP, "alignment is that of the type, or of the element type of vectors")

_IMAGES: Final = "Image arguments"
IMAGE_POINTER = _rule("image-pointer", _IMAGES, "images are passed as pointers to resource and information")
IMAGE_RESOURCE = _rule("image-resource", _IMAGES, "the image resource takes 8 dwords", _CHOSEN)
CHANNEL_TYPE = _rule("channel-type", _IMAGES, "dword 8 is the channel data type, to be masked with 0xf")
CHANNEL_ORDER = _rule("channel-order", _IMAGES, "dword 9 is the channel order, to be masked with 0x1f")

_SAMPLERS: Final = "Sampler arguments"
SAMPLER_POINTER = _rule(
    "sampler-pointer", _SAMPLERS, "samplers are passed as pointers to the sampler resource", _CHOSEN
)

_SCRATCH: Final = "Scratch buffer access"
SCRATCH_DESCRIPTOR = _rule(
    "scratch-descriptor", _SCRATCH, "the first four scalar registers hold the scratch buffer descriptor"
)

_FLAT: Final = "Flat access"
FLAT_MEMORY = _rule("flat-memory", _FLAT, "FLAT instructions read and write main memory")
FLAT_GENERIC = _rule("flat-generic", _FLAT, "usegeneric lets FLAT instructions access LDS and the scratch buffer")
LDS_BASE = _rule("lds-base", _FLAT, "dword 16 of the special buffer in S[6-7] is bits 32-63 of the LDS base")
SCRATCH_BASE = _rule("scratch-base", _FLAT, "dword 17 of it is bits 32-63 of the scratch buffer's base")
SCRATCH_OFFSET = _rule("scratch-offset", _FLAT, "S10 holds the base scratch offset for FLAT_SCRATCH", _CHOSEN)
SCRATCH_SIZE = _rule("scratch-size", _FLAT, "S11 holds the size of scratch per thread for FLAT_SCRATCH", _CHOSEN)

REQUIRED_SIZE = _rule(
    "required-size", "OpenCL 2.0: reqd_work_group_size", "a kernel runs with the work-group size it was compiled for"
)

RULES: Final[tuple[Rule, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Rule))
"""All rules in the order of the document."""
