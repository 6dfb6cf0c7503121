"""What strategies draw is what they say: our devices and readers take what is valid and refuse the rest for that."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from softcard import testing
from softcard.core.errors import BeyondModel, SoftcardError, WireError
from softcard.core.lint import Lint
from softcard.device.acceldev.commands import STATUS
from softcard.device.acceldev.events import CommandFinished
from softcard.device.fletcher.map.checker import Severity, check_design
from softcard.device.refsi.commands import decode_all
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.toolkit.lint import Severity as LintSeverity
from softcard.device.refsi.toolkit.lint import lint
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.image.hsa.code_object import read_code_object
from softcard.isa.gcn.encoding.decode import IllegalInstruction, decode
from softcard.isa.gcn.state import SCC, VCC
from softcard.isa.gcn.state import STATUS as GCN_STATUS
from softcard.isa.gcn.target import target
from softcard.isa.riscv.state import RETURN_ADDRESS
from softcard.testing import Drawn
from tests.device.acceldev.rig import Machine
from tests.device.hsa.rig import Bench
from tests.engine.gcn.programs import started
from tests.engine.gcn.rig import launch
from tests.engine.riscv.rig import CODE, UNKNOWN_ORIGIN
from tests.engine.riscv.rig import Rig as Rv64

BUFFER = 0x4F00_0000
END = 0x77_0000
SLOTS = {0: 4096, 5: 8192}
AGENTS = ("gfx700", "gfx803", "gfx906")


# ---- what our devices and readers say of a value: the rule or the damage, None where nothing is wrong ----------------


@cache
def refsi_device() -> RefSiDevice:
    return RefSiDevice("m", engine="reference")


def refsi(data: bytes) -> str | None:
    device = refsi_device()
    device.write(BUFFER, data)
    device.submit(BUFFER, len(data))
    (status,) = device.wait()
    if status.error is not None:
        return rule_of(status.error)
    assert not [found for found in lint(data) if found.severity is LintSeverity.ERROR]
    return None


def rule_of(error: Exception) -> str:
    assert isinstance(error, SoftcardError)
    assert error.rule is not None, error
    return error.rule.id


@cache
def acceldev_machine() -> tuple[Machine, int, int]:
    machine = Machine()
    for slot, size in SLOTS.items():
        machine.bound(slot, size // 4096)
    return machine, *machine.buffer(1)


def acceldev(data: bytes) -> str | None:
    machine, table, code = acceldev_machine()
    machine.events.clear()
    machine.memory.write(code, data)
    machine.record()[STATUS] = 0
    machine.run_at(table, 0, len(data))
    error = machine.seen(CommandFinished)[-1].error
    assert machine.status() == (error is not None)
    return None if error is None else rule_of(error)


@cache
def hsa_bench() -> tuple[Bench, int, int]:
    bench = Bench(listen=True)
    return bench, bench.kernel(), bench.device.create_signal(0).address


def aql(data: bytes) -> str | None:
    bench, _, _ = hsa_bench()
    bench.events.clear()
    bench.errors.clear()
    queue = bench.new_queue(4)
    queue.submit(data)
    reported = [rule.id for event in bench.reported(Lint) if (rule := event.rule)]
    reported += [rule_of(error) for _, error in bench.errors]
    bench.device.destroy_queue(queue)
    assert len(reported) <= 1
    return reported[0] if reported else None


REFUSALS = {
    "elf/magic": "expected 7f 45 4c 46",
    "elf/class": "EI_CLASS is",
    "elf/data": "EI_DATA is",
    "elf/type": "e_type is",
    "elf/machine": "e_machine is",
    "elf/segment": "segment at",
    "elf/sections": "section header table at",
    "elf/cut": "section header table at",
    "hsa/os-abi": "EI_OSABI is",
    "hsa/abi-version": "EI_ABIVERSION",
}


def code_object(data: bytes) -> str | None:
    try:
        found = read_code_object(data)
    except (WireError, BeyondModel) as error:
        return str(error)
    assert found.warnings == ()
    assert found.kernels
    found.load(0x10_0000)
    return None


def schema(value: pa.Schema) -> str | None:
    rules = {found.rule.id for found in check_design([value]).findings if found.severity is Severity.ERROR}
    assert len(rules) <= 1
    return rules.pop() if rules else None


GCN_REFUSALS = {
    "gcn/encoding": "has no such encoding",
    "gcn/opcode": " opcode ",
    "gcn/register": "operand code",
    "gcn/cut": "the code ends inside it",
}


def gcn(agent: str, code: bytes) -> str | None:
    at, name = 0, ""
    while name != "s_endpgm":
        try:
            insn = decode(target(agent), code[at:], at)
        except IllegalInstruction as error:
            return str(error)
        at, name = at + insn.size, insn.name
    assert at == len(code)
    assert outcome(agent, code, 0) == outcome(agent, code, 0xBEEF_0BAD)
    return None


def outcome(agent: str, code: bytes, undefined: int) -> list[Any]:
    """Everything that a kernel may have computed."""
    dispatch = launch(np.frombuffer(code, np.uint32).tolist(), agent, poison=undefined)
    stepper, wave = started(dispatch)
    while stepper.step(wave).name != "s_endpgm":
        pass
    return [
        wave.sgpr[:8].tolist(),
        wave.vgpr[:8].tolist(),
        wave.sgpr[VCC : VCC + 2].tolist(),
        wave.words[GCN_STATUS] & SCC,
    ]


RISCV_REFUSALS = {
    "riscv/encoding": "no compressed instruction|no such encoding",
    "riscv/length": "longer than 32 bits",
    "riscv/rounding-mode": "rounding mode",
}


@cache
def rv64() -> Rv64:
    return Rv64(ReferenceEngine())


def riscv(code: bytes) -> str | None:
    rig, left = rv64(), []
    rig.space.write(CODE, code, UNKNOWN_ORIGIN)
    rig.engine.code_written(rig.host(CODE), len(code))
    for undefined in (0, 0xBEEF_0BAD_BEEF_0BAD):
        words = rig.hart.words
        for n in range(1, 64):
            words[n] = undefined
        words[1] = words[RETURN_ADDRESS] = END
        rig.hart.pc = CODE
        ended = rig.engine.run(rig.hart, 1000)
        if ended.why.value == "trap":
            assert ended.cause == 2
            is_rounded = ended.insn is not None and ended.insn.rm in (5, 6)
            return "rounding mode" if is_rounded else ended.detail
        assert ended.why.value == "return"
        left.append((tuple(words[8:16]), tuple(words[40:48])))
    assert left[0] == left[1]
    return None


CASES: dict[str, tuple[SearchStrategy[Drawn[Any]], Callable[[Any], str | None], dict[str, str]]] = {
    "refsi": (testing.refsi_buffers(), refsi, {}),
    "acceldev": (testing.acceldev_buffers(slots=SLOTS), acceldev, {}),
    "aql": (st.deferred(lambda: testing.aql_packets(hsa_bench()[1], signals=hsa_bench()[2:])), aql, {}),
    "code objects": (testing.code_objects("gfx803"), code_object, REFUSALS),
    "schemas": (testing.fletcher_schemas(), schema, {}),
    **{agent: (testing.gcn_kernels(agent), partial(gcn, agent), GCN_REFUSALS) for agent in AGENTS},
    "riscv": (testing.riscv_kernels(), riscv, RISCV_REFUSALS),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60)
@given(st.data())
def test_what_is_drawn_is_taken_or_refused_for_what_is_wrong_with_it(name: str, data: st.DataObject) -> None:
    strategy, judge, texts = CASES[name]
    value, breaks = data.draw(strategy)
    verdict = judge(value)
    assert (verdict is None) == (breaks is None), verdict
    assert verdict == breaks or re.search(texts[breaks], verdict)


MISTAKES = {
    "refsi": (testing.refsi_buffers, 14),
    "acceldev": (testing.acceldev_buffers, 4),
    "code objects": (testing.code_objects, 10),
    "schemas": (testing.fletcher_schemas, 6),
    "gcn": (testing.gcn_kernels, 4),
    "riscv": (testing.riscv_kernels, 3),
    "aql": (partial(testing.aql_packets, 64), 4),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_only_what_is_asked_for_is_wrong(name: str) -> None:
    make, count = MISTAKES[name]
    with pytest.raises(WireError, match="the strategy cannot generate the mistake 'nope', expected some of ") as caught:
        make(breaks=["nope"])
    known = caught.value.message.partition("some of ")[2].split(", ")
    assert len(known) == count
    for which in ([], [known[-1]]):
        assert mistakes_of(make(breaks=which)) == {None, *which}


def mistakes_of(strategy: SearchStrategy[Drawn[Any]]) -> set[str | None]:
    seen = set()

    @settings(max_examples=10)
    @given(strategy)
    def draw(drawn: Drawn[Any]) -> None:
        seen.add(drawn.breaks)

    draw()
    return seen


def test_mistakes_shrink_to_themselves() -> None:
    quick = settings(max_examples=100, phases=(Phase.generate, Phase.shrink), database=None)
    only = testing.refsi_buffers(breaks=["refsi/copy-unit"])
    found = find(only, lambda drawn: drawn.breaks is not None, settings=quick)
    commands = decode_all(memoryview(found.value).cast("Q"), lenient=True)
    assert [each.opcode.name for _, each in commands] == ["COPY_MEM64", "FINISH"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: testing.acceldev_buffers(slots={16: 4096}),
            "slot 16 with 4096 bytes is invalid, expected a slot from 0 to 15",
        ),
        (lambda: testing.acceldev_buffers(slots={0: 100}), "slot 0 with 100 bytes"),
        (lambda: testing.code_objects(versions=["V1"]), "unknown code object version 'V1', expected some of V2"),
        (lambda: testing.gcn_kernels("gfx1030"), "unknown processor 'gfx1030'"),
        (lambda: testing.refsi_buffers(memory=range(8)), "memory has 8 bytes at 0x0, expected 16 bytes or more"),
    ],
)
def test_what_nothing_can_be_drawn_of_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(WireError, match=message):
        make()


def test_without_hypothesis_there_is_the_line_that_gets_it() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import softcard.testing as t; print(dir(t)); t.gcn_kernels()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "riscv_kernels" in ran.stdout
    assert ran.stderr.endswith("ImportError: strategies need hypothesis: pip install 'softcard[testing]'\n")


def test_the_page_names_all_mistakes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text("utf-8")
    for make, _ in MISTAKES.values():
        with pytest.raises(WireError) as caught:
            make(breaks=["nope"])
        name = getattr(make, "func", make).__name__
        (row,) = re.findall(rf"^\| `{name}\(.*\n", page, re.MULTILINE)
        reported, family = set(), ""
        for word in re.findall(r"`([\w/-]+)`", row.rpartition(" | ")[2]):
            family = word if word.endswith("/") else family
            reported |= {family + word} - {family * 2}
        assert reported == set(caught.value.message.partition("some of ")[2].split(", "))
