"""Code that host programs put into memory: listed as it ran, with what files know of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from softcard import Gpu, RefSi
from softcard.core.errors import AccessFault
from softcard.device.kfd.code_files import CodeFiles
from softcard.device.kfd.loaded_code import CodeWatch, LoadedCode
from softcard.hsa import demo_code
from softcard.image.elf.embedded import Files, embedded
from softcard.image.elf.layout import MACHINE_AMDGPU, MACHINE_RISCV
from softcard.refsi import demo_kernels
from softcard.trace.executed_code import listing_of_memory, listing_of_words
from softcard.trace.speedscope import SpeedscopeTrace


def nothing(address: int, size: int) -> bytes:
    raise AccessFault("no memory", address=address, access="execute")


def test_files_inside_of_files() -> None:
    code, kernels = demo_code("gfx900"), demo_kernels()
    data = b"\x7fELF" * 3 + code + b"between" + kernels + code[:-1]
    assert list(embedded(data, MACHINE_AMDGPU)) == [code]
    assert list(embedded(data, MACHINE_RISCV)) == [kernels]
    assert not list(embedded(b"", MACHINE_RISCV))


def test_arguments_that_cannot_be_files(tmp_path: Path) -> None:
    """Any argument of a program may name a file; a long one does not."""
    assert Files([Path("a" * 300), Path("\0"), tmp_path, tmp_path / "missing"]).elf_files(MACHINE_AMDGPU) == []


def test_code_objects(tmp_path: Path) -> None:
    program, other = tmp_path / "program", tmp_path / "other"
    program.write_bytes(b"\0" * 100 + demo_code("gfx900"))
    other.write_bytes(demo_code("gfx803"))
    ran: list[tuple[LoadedCode, dict[int, int]]] = []
    with Gpu.open("gfx900", count_instructions=True) as gpu:
        watch = CodeWatch(gpu.device, lambda code, executions: ran.append((code, dict(executions.counts))))
        x = np.ones(1000, np.float32)
        result = gpu.run(gpu.load(demo_code("gfx900")), "saxpy", grid=1000, group=64, args=[2.0, x, x])
        watch.close()
    [(code, counts)] = ran
    for paths, name in (([other, program], "program, code"), ([other], "code"), ([tmp_path / "none"], "code")):
        listing = listing_of_memory(code, counts, "code", CodeFiles(Files(paths)))
        [function] = listing.functions
        assert (listing.name, function.name, function.count) == (name, "saxpy", result.instructions)
        assert function.rows[0].text.startswith("s_load_dword")
    nameless = LoadedCode(code.agent, code.base, code.data)
    [function] = listing_of_memory(nameless, counts, "code", CodeFiles(Files([program]))).functions
    assert (function.name, function.count) == (hex(min(counts)), result.instructions)


def test_what_harts_executed(tmp_path: Path) -> None:
    with RefSi.open(count_instructions=True) as device:
        program = device.load_elf(demo_kernels())
        a = np.arange(64, dtype=np.int32)
        device.launch("vector_add", 4, [a, a, np.zeros_like(a), 16])
        counts, words = device.instruction_counts(), device.port.executed_code()
    assert words.keys() == counts.keys()
    assert all(program.image.read(pc, len(word)) == word for pc, word in words.items())
    file = tmp_path / "k.elf"
    file.write_bytes(demo_kernels())
    listing = listing_of_words(words, counts, "device", Files([file]), nothing)
    assert [(each.name, each.count) for each in listing.functions] == [("vector_add", sum(counts.values()))]
    assert (listing.name, "broken" in listing.silent) == ("k.elf, device", True)

    listing = listing_of_words(words, counts, "device", Files([]), nothing)  # what lies between is not known
    assert {row.pc: row.count for each in listing.functions for row in each.rows} == counts
    listing = listing_of_words(words, counts, "device", Files([]), program.image.read)
    assert listing.functions[0].name == hex(min(counts))

    file.write_bytes(demo_kernels().replace(words[max(words)], bytes(len(words[max(words)]))))
    assert listing_of_words(words, counts, "device", Files([file]), nothing).name == "device"  # other code

    scope = tmp_path / "profile.json"
    with SpeedscopeTrace(scope) as trace:
        trace.listing(listing)
    document = json.loads(scope.read_text(encoding="utf-8"))
    [profile] = document["profiles"]
    assert (profile["type"], sum(profile["weights"])) == ("sampled", sum(counts.values()))
    assert document["shared"]["frames"][profile["samples"][0][0]]["name"] == listing.functions[0].name


def test_what_runs_a_kernel_is_called_by_its_name(tmp_path: Path) -> None:
    scope = tmp_path / "profile.json"
    with SpeedscopeTrace(scope) as trace:
        for event, more in (
            ("command-started", {"index": 0, "command": {"type": "run-instances"}}),
            ("kernels-named", {"kernels": {"scale": 0x11AE0}}),
            ("kernel-launch", {"entry": "0x11ae0", "instances": 1}),
            ("instance-started", {"hart": 0, "instance": 0}),
            ("instance-ended", {"hart": 0, "instance": 0}),
            ("kernel-launch", {"entry": "0x20"}),
            ("instance-started", {"hart": 0, "instance": 1}),
            ("command-finished", {"index": 0}),
        ):
            trace.write({"time": 1, "event": event, **more})  # type: ignore[dict-item]
    frames = [each["name"] for each in json.loads(scope.read_text(encoding="utf-8"))["shared"]["frames"]]
    assert sorted(frames) == ["kernel at 0x20", "scale"]
