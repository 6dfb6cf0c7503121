"""Put the code objects of a tree of ROCm libraries into one archive: ``rocm_kernels.py TREE ARCHIVE``.

Those for GFX8 and GFX9 that Softcard runs: out of the offload bundles that lie one behind the other in a library, and
files of their own. An entry's name is ``LIBRARY/PROCESSOR/NUMBER.co``. Needs nothing but Python.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

PROCESSORS: Final = ("gfx803", "gfx900", "gfx906")
MAGIC: Final = b"__CLANG_OFFLOAD_BUNDLE__"
MOST_ENTRIES: Final = 64
"""Of a bundle; where there are more the magic is but text."""
SINGLE: Final = re.compile(r"([A-Za-z]+)[\w.-]*?[-_](gfx\d+)\.(?:co|hsaco)")
"""Names of files that are a code object."""


def bundled(data: mmap) -> Iterator[tuple[str, bytes]]:
    """Processor and bytes of each code object in the bundles of a library."""
    at = data.find(MAGIC)
    while at >= 0:
        (count,) = struct.unpack_from("<Q", data, at + len(MAGIC))
        entry = at + len(MAGIC) + 8
        for _ in range(count if count <= MOST_ENTRIES else 0):
            offset, size, length = struct.unpack_from("<QQQ", data, entry)
            name = data[entry + 24 : entry + 24 + length].decode()
            entry += 24 + length
            processor = name.rpartition("--")[2].partition(":")[0]
            if processor in PROCESSORS and size:
                yield processor, data[at + offset : at + offset + size]
        at = data.find(MAGIC, at + len(MAGIC))


def objects(tree: Path) -> Iterator[tuple[str, str, bytes]]:
    """Library, processor and bytes of each code object of a tree."""
    for path in sorted(each for each in tree.rglob("*") if each.is_file() and not each.is_symlink()):
        single = SINGLE.fullmatch(path.name)
        if single is not None:
            if single[2] in PROCESSORS:
                yield single[1], single[2], path.read_bytes()
        elif ".so" in path.suffixes and path.stat().st_size:
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                for processor, found in bundled(data):
                    yield path.name.partition(".")[0], processor, found


def main(tree: Path, archive: Path) -> None:
    """Write the archive; exit with an error where the tree has no code object."""
    with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=1) as zipped:
        for number, (library, processor, data) in enumerate(objects(tree)):
            zipped.writestr(f"{library}/{processor}/{number:04}.co", data)
        if not zipped.namelist():
            sys.exit(f"rocm_kernels: {tree} has no code object for {', '.join(PROCESSORS)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
