"""What a kernel may expect of the buffers it is given: the sentences of the document that rebuilt arrays lean on."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice, Fidelity, Rule

_DERIVED: Final = "Schema derived registers"

BUFFER_ADDRESS: Final = Rule(
    "fletcher/buffer-address",
    _DERIVED,
    "Fletcher expects the raw data addresses of the Arrow buffers: each register of a buffer the kernel touches holds "
    "an address in device memory, from which on the rows of the index range lie in one allocation",
    Fidelity.CHOSEN,
)
BUFFER_FORMAT: Final = Rule(
    "fletcher/buffer-format",
    _DERIVED,
    "a schema results in a specific in-memory format, that of the Arrow format specification: offsets start at 0 or "
    "more, never fall and end inside the values, values are some of their type, elements are aligned to their width",
    Fidelity.CHOSEN,
)
INDEX_ORDER: Final = Rule(
    "fletcher/index-order",
    _DERIVED,
    "first index and last index bound a range of rows: the first is not above the last",
    Fidelity.CHOSEN,
)
NO_NULLS: Final = Rule(
    "fletcher/no-nulls",
    _DERIVED,
    "a field that is not nullable has no validity buffer: nothing can be null there",
    Fidelity.CHOSEN,
)

ARRAY_RULES: Final[tuple[Rule, ...]] = (BUFFER_ADDRESS, BUFFER_FORMAT, INDEX_ORDER, NO_NULLS)

ARRAY_CHOICES: Final[tuple[Choice, ...]] = (
    Choice(
        "fletcher/empty-validity",
        "a nullable field without nulls: the run-time passes the address of an allocation of no bytes",
        "all rows are valid",
        "it is what the host means; hardware would read whatever lies at that address",
    ),
    Choice(
        "fletcher/sliced-batch",
        "a RecordBatch that is a slice: the run-time passes its buffers whole, and rows 0 to their number",
        "in profile spec an error that names the column, unless the host asks for it (`whole`) and names the rows by "
        "the index registers; in profile hardware passed as the run-time does, with a lint",
        "the kernel would see other rows than the host has, and neither is told",
    ),
    Choice(
        "fletcher/allocation-end",
        "an index range that goes on behind the end of a buffer's allocation",
        "an error that names the register, before the kernel sees a row",
        "hardware reads on into what follows; the host's author wants to know",
    ),
    Choice(
        "fletcher/element-alignment",
        "an address that is no multiple of the element's width (8 at most)",
        "an error that names the register",
        "Arrow aligns buffers to 8 bytes at least, Fletcher's readers want bus bursts; no allocator gives such ones",
    ),
    Choice(
        "fletcher/zero-copy",
        "what a kernel's arrays share with device memory",
        "values, characters and offsets are device memory itself; copied are only offsets of lists that begin behind "
        "their child's first element, and bitmaps that begin inside a byte",
        "so pyarrow never holds a pointer to a byte that was not checked",
    ),
    Choice(
        "fletcher/string-write-seeds",
        "what StringWrite's random generators hold at a second start",
        "their seeds, as at the first one",
        "the hardware's run on from start to start; the recorded results are those of a first one",
    ),
    Choice(
        "fletcher/as-built",
        "examples whose hardware does less than they mean to",
        "string_write and prim_map do what is meant; string_write_as_built and prim_map_as_built what was simulated",
        "a host's author wants the first, who compares with hardware the second",
    ),
    Choice(
        "fletcher/soda-beer",
        "SodaBeer's result, and how a host learns how many rows it wrote",
        "return0 counts the rows of Beer, return1 those of Soda",
        "the example is work in progress and drives no result",
    ),
    Choice(
        "fletcher/printers",
        "StringRead and listprim print what they read in simulation",
        "each line is an event of the device, KernelText",
        "a device does not print, and hardware cannot",
    ),
)
