"""SodaBeer: who may have beer at the hobbits' party, and who gets soda."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import kernel

HOBBITS: Final = (("name", pa.utf8()), ("age", pa.uint8()))


@kernel(
    "soda_beer",
    read={"Hobbits": HOBBITS},
    write={"Beer": HOBBITS, "Soda": HOBBITS},
    custom=("c:32:age_limit",),
)
def soda_beer(job: Job) -> Iterator[None]:
    """Copy hobbits of age_limit or more to Beer and the others to Soda.

    The result counts them, Beer in the low half and Soda in the high one (choice fletcher/soda-beer).
    """
    beers = sodas = 0
    for part in job.slices("Hobbits"):
        grown = pc.greater_equal(part["age"], pa.scalar(job.control("age_limit"), pa.uint32()))
        beer, soda = part.filter(grown), part.filter(pc.invert(grown))
        job.write("Beer", beer.replace_schema_metadata(job.map.batch("Beer").schema.metadata))
        job.write("Soda", soda.replace_schema_metadata(job.map.batch("Soda").schema.metadata))
        beers, sodas = beers + beer.num_rows, sodas + soda.num_rows
        yield
    job.result = sodas << 32 | beers
