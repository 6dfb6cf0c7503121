"""Static libraries: their index leads to the members that define a symbol."""

from __future__ import annotations

from importlib.resources import files

from softcard.image.elf.embedded import ARCHIVE_MAGIC, archive

KERNELS = files("softcard").joinpath("data", "kernels.elf").read_bytes()


def members(data: bytes) -> dict[int, tuple[str, bytes]]:
    """Return the members of a library by the place of their header."""
    found, at = {}, len(ARCHIVE_MAGIC)
    while at < len(data):
        header = data[at : at + 60]
        assert header[58:] == b"`\n"
        size = int(header[48:58])
        found[at] = header[:16].decode().strip(), data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    return found


def test_the_index_names_the_member_of_each_symbol() -> None:
    data = archive({"one.o": KERNELS + b"\0" * (1 - len(KERNELS) % 2), "two.o": KERNELS})
    assert data.startswith(ARCHIVE_MAGIC)
    index, one, two = members(data).items()
    assert (index[1][0], one[1][0], two[1]) == ("/", "one.o/", ("two.o/", KERNELS))
    count = int.from_bytes(index[1][1][:4], "big")
    places = [int.from_bytes(index[1][1][at : at + 4], "big") for at in range(4, 4 + 4 * count, 4)]
    names = index[1][1][4 + 4 * count :].split(b"\0")[:-1]
    assert len(names) == count
    assert places == [one[0]] * (count // 2) + [two[0]] * (count // 2)
    assert b"matmul_f32" in names
