"""What `understudy fletcher new` writes: a virtual kernel for a design's schemas, and its first test."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Final

from understudy.cli.exits import UsageError

if TYPE_CHECKING:
    from understudy.device.fletcher.map.layout import FletcherMap

KERNEL: Final = '''"""The kernel {name} as a function: what the hardware reads, computes and returns."""

from pathlib import Path

import pyarrow as pa
from understudy.fletcher import kernel

HERE = Path(__file__).parent
READ, WRITE = {read!r}, {write!r}


@kernel(
    read={{batch: pa.ipc.read_schema(HERE / f"{{batch}}.as") for batch in READ}},
    write={{batch: pa.ipc.read_schema(HERE / f"{{batch}}.as") for batch in WRITE}},
    custom={custom!r},
)
def {name}(job):
    """Counts the rows that it reads, until you write what it computes."""
{hints}    return sum(job.batch(batch).num_rows for batch in READ)
'''
TEST: Final = '''"""The host's side of {name}: the calls are those of Fletcher's run-time library."""

from understudy.fletcher import Context, Kernel, Platform, empty_batch

from {name} import READ, {name}

ROWS = 4


def run(batches, arguments):
    """The result of the kernel on these RecordBatches, and what they hold then."""
    with Platform({name}) as platform, Context(platform) as context:
        for batch in batches:
            context.queue_record_batch(batch)
        context.enable()
        started = Kernel(context)
        started.set_arguments(arguments)
        started.start()
        started.wait_for_finish()
        return started.get_return("uint64"), [context.read_record_batch(n) for n in range(len(batches))]


def test_{name}():
    # Rows of zeros, with room for 64 elements below each list or string: put your own here.
    batches = [empty_batch(schema, rows=ROWS, elements=64) for schema in {name}.schemas]
    result, after = run(batches, {values})
    assert result == ROWS * len(READ)
    assert len(after) == len(batches)
'''


def files(name: str, design: FletcherMap) -> dict[str, bytes]:
    """By their names: the kernel, its test, and each schema as an Arrow IPC message."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is no name of a function in Python")
    names = [each.name for each in design.batches]
    for each in names:
        if not each.replace("-", "_").isidentifier():
            raise UsageError(f"RecordBatch {each!r} is no name of a file")
        if names.count(each) > 1:
            raise UsageError(f"two RecordBatches are called {each!r}")
    read, write = ([each.name for each in design.batches if each.mode.value == mode] for mode in ("read", "write"))
    controls = [each.name for each in design.customs if each.behaviour == "c"]
    states = [each.name for each in design.customs if each.behaviour == "s"]
    hints = [f"    # job.control({each!r}) is what the host has written there\n" for each in controls]
    hints += [f"    # job.set_status({each!r}, value) is what it can read there\n" for each in states]
    hints += [f"    # job.write({each!r}, columns) writes rows: columns in order, or by name\n" for each in write]
    custom = [f"{each.behaviour}:{each.width}:{each.name}" for each in design.customs]
    kernel = KERNEL.format(name=name, read=read, write=write, custom=custom, hints="".join(hints))
    test = TEST.format(name=name, values=dict.fromkeys(controls, 0))
    schemas = {f"{each.name}.as": each.schema.serialize().to_pybytes() for each in design.batches}
    return {f"{name}.py": kernel.encode(), f"test_{name}.py": test.encode(), **schemas}
