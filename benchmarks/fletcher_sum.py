"""Does a virtual Fletcher kernel run as fast as the library under it?

Sum over 100 million 64-bit integers: the whole handshake of a host program (queue, enable, ranges and addresses, start,
poll, return value) on a virtual device in the same process, against one call of pyarrow's own sum. Then kernels that
write back, against the same work done with pyarrow directly.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness import Row, alternate, main, wall
from softcard.device.fletcher.kernels import find
from softcard.host.fletcher import Context, Kernel, Platform, empty_batch

TITLE: Final = "Fletcher: kernels against pyarrow"
QUESTION: Final = "fletcher_sum"
WITHIN: Final = 1.2
"""Times of pyarrow's own that Sum may take."""
SEED: Final = 2026


def handshake(platform: Platform, batches: list[pa.RecordBatch], arguments: tuple[int, ...] = ()) -> int:
    """What a host program does for one start, from the RecordBatch to the return value."""
    with Context(platform) as context:
        for batch in batches:
            context.queue_record_batch(batch)
        context.enable()
        kernel = Kernel(context)
        kernel.reset()
        if arguments:
            kernel.set_arguments(arguments)
        kernel.start()
        kernel.wait_for_finish()
        return int(kernel.get_return("uint64"))


def row(
    what: str, amount: int, ours: Any, peer: Any, rounds: int, *, target: float | None = None, note: str = ""
) -> Row:
    """Rows per second of both sides, in turn."""
    mine, theirs = alternate(rounds, lambda: wall(ours), lambda: wall(peer))
    best, median = (amount / seconds / 1e6 for seconds in (mine.best, mine.median))
    peer_rate = amount / theirs.best / 1e6
    more = {"target": target, "note": note}
    return Row(QUESTION, what, "M rows/s", best, median, peer_name="pyarrow", peer=peer_rate, **more)


def sums(rows: int, rounds: int) -> list[Row]:
    """Sum, with the kernel's steps in register accesses and on a thread of its own."""
    kernel = find("sum")
    values = pa.array(np.random.default_rng(SEED).integers(-(1 << 40), 1 << 40, rows))
    batch = pa.RecordBatch.from_arrays([values], schema=kernel.schemas[0])
    expected = pc.sum(values).as_py() & (1 << 64) - 1
    found = []
    for execution in ("synchronous", "threaded"):
        with Platform(kernel, execution=execution) as platform:
            assert handshake(platform, [batch]) == expected
            what = f"sum of {rows:,}, {execution}"
            ours, peer = (lambda platform=platform: handshake(platform, [batch])), (lambda: pc.sum(values))
            target = round(1 / WITHIN, 2) if execution == "synchronous" else None
            found.append(row(what, rows, ours, peer, rounds, target=target))
    return found


def adds(rows: int, rounds: int) -> Row:
    """Column arithmetic, results written back to device memory."""
    kernel = find("arithmetic")
    random = np.random.default_rng(SEED)
    columns = [pa.array(random.integers(0, 1 << 40, rows)) for _ in range(2)]
    batches = {schema.metadata[b"fletcher_name"]: schema for schema in kernel.schemas}
    given = pa.RecordBatch.from_arrays(columns, schema=batches[b"In"])
    out = empty_batch(batches[b"Out"], rows)
    with Platform(kernel) as platform:
        assert handshake(platform, [given, out], (0,)) == rows
        return row(
            f"addition of {rows:,}",
            rows,
            lambda: handshake(platform, [given, out], (0,)),
            lambda: pc.add(*columns),
            rounds,
            note="ours brings the host's buffer for the result to the device, as the run-time does, and writes into it",
        )


def measure(quick: bool) -> list[Row]:
    """The rows of this benchmark."""
    rows, rounds = (4_000_000, 3) if quick else (100_000_000, 7)
    return [*sums(rows, rounds), adds(rows // 4, rounds)]


if __name__ == "__main__":
    main(measure, TITLE)
