"""One task of a generated program, or of a file of one: made, compiled, run; and what came of it, as columns."""

from __future__ import annotations

import hashlib
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from understudy.campaign.compilation import Compiled, CompilerCrash, compile_generated
from understudy.campaign.generators import opencl
from understudy.campaign.generators.registry import GENERATORS
from understudy.campaign.kept_gpu import GPUS
from understudy.campaign.task import Task
from understudy.campaign.worker import REFUSED
from understudy.core.errors import BeyondModel, ModelBug, UnderstudyError
from understudy.core.limits import TimeLimit
from understudy.core.lint import LintWarning
from understudy.host.compiling import CompileError, NoCompiler

MOST_MESSAGE: Final = 4000
MOST_FINDINGS: Final = 20
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\b\d+\b")
DEFAULT_AGENT: Final = "gfx900"


@dataclass(slots=True)
class Found:
    """What came of a run that ended: bytes that are the same where everything is right, and what it took."""

    result: bytes
    instructions: int
    seconds: float
    wrong: str = ""


def perform(task: Task, data: bytes, run: Callable[[Task, bytes], tuple[Found, Compiled | None]]) -> dict[str, Any]:
    """The columns of one task that `run` runs; whatever it raises is an outcome, what it is warned of a finding."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LintWarning)
        columns = _performed(task, data, run)
    told = (str(each.message) for each in caught if issubclass(each.category, LintWarning))
    return columns | {"findings": list(dict.fromkeys(told))[:MOST_FINDINGS]}


def _performed(task: Task, data: bytes, run: Callable[[Task, bytes], tuple[Found, Compiled | None]]) -> dict[str, Any]:
    try:
        found, compiled = run(task, data)
    except UnderstudyError as error:
        return outcome_of(error)
    except Exception as error:  # noqa: BLE001  # a bug of ours is an outcome, and the next task is run
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = "" if where is None else f" in {where.tb_frame.f_code.co_name}"
        text = f"{type(error).__name__}: {error}"
        return {"outcome": "bug", "signature": f"bug {type(error).__name__}{place}", "message": text[:MOST_MESSAGE]}
    columns: dict[str, Any] = {
        "outcome": "wrong" if found.wrong else "ok",
        "signature": "wrong" if found.wrong else "",
        "message": found.wrong,
        "digest": hashlib.sha256(found.result).hexdigest()[:16],
        "instructions": found.instructions,
        "seconds": found.seconds,
    }
    if compiled is not None:
        columns |= {"compile_seconds": compiled.seconds, "compiler_version": compiled.version}
    return columns


def outcome_of(error: UnderstudyError) -> dict[str, Any]:
    """The columns of an error. The signature is the same for the same mistake elsewhere."""
    kind = {
        NoCompiler: REFUSED, CompilerCrash: "crash", CompileError: "refused-source", TimeLimit: "timeout",
        BeyondModel: "beyond", ModelBug: "bug",
    }  # fmt: skip
    outcome = next((name for each, name in kind.items() if isinstance(error, each)), "fault")
    about = error.where if isinstance(error, CompilerCrash) else error.rule.id if error.rule else error.message
    signature = f"{outcome} {_NUMBERS.sub('N', about.splitlines()[0] if about else '')}"[:200]
    return {"outcome": outcome, "signature": signature, "message": str(error)[:MOST_MESSAGE]}


def generated_kind(program: str) -> str:
    """The generator whose programs a file is one of, by its name; or ""."""
    suffixes = "".join(PurePath(program).suffixes[-2:])
    return next((name for name, each in GENERATORS.items() if each.suffix == suffixes), "")


def run_generated(task: Task, data: bytes) -> tuple[Found, Compiled | None]:
    """Run a generated program: that of the task's seed, or one in a file."""
    if task.generator:
        generator = GENERATORS[task.generator]
        return RUNNERS[generator.runs_as](task, generator.seeded(task.seed).text().encode())
    return RUNNERS[generated_kind(task.program)](task, data)


# ---- compiled programs -----------------------------------------------------------------------------------------------


def _run_opencl(task: Task, source: bytes) -> tuple[Found, Compiled]:
    agent = task.agent or DEFAULT_AGENT
    compiled = compile_generated(source, "opencl", agent, task.compiler, task.options, task.time_limit)
    return run_kernel(compiled.code, agent, task), compiled


def _run_rv64(task: Task, source: bytes) -> tuple[Found, Compiled]:
    compiled = compile_generated(source, "rv64", "", task.compiler, task.options, task.time_limit)
    return run_rv64(compiled.code, task), compiled


def run_rv64(code: bytes, task: Task) -> Found:
    """Run a program: what it prints is its result."""
    from understudy.engine.riscv.jit.engine import JitEngine
    from understudy.host.rv64.run import ENGINES, RV64
    from understudy.ir import llvm

    engine = ENGINES[task.engine]()
    if task.limit is not None:
        engine = JitEngine(tier=llvm.QUICK)  # at first sight: where code ends in the middle of a loop, none gets hot
        engine.limit = task.limit
    result = RV64.run(code, engine=engine, time_limit_seconds=task.time_limit)
    wrong = f"it ended with {result.status}" if result.status else ""
    return Found(result.console, result.instructions, result.time, wrong=wrong)


def _run_gcn(task: Task, source: bytes) -> tuple[Found, None]:
    agent = task.agent or DEFAULT_AGENT
    return run_kernel(assembled(source.decode("utf-8", "replace"), agent), agent, task), None


def assembled(source: str, agent: str) -> bytes:
    """A kernel ``k`` of the generator's assembly."""
    from understudy.image.hsa.bare import bare_code_object
    from understudy.isa.gcn.asm.assembler import assemble
    from understudy.isa.gcn.target import target

    code = assemble(target(agent), source)
    return bare_code_object(
        code, agent, name="k", vgprs=24, sgprs=48, kernarg_bytes=24, lds_bytes=4 * opencl.GROUP,
        user_sgprs=("kernarg_segment_ptr",),
    )  # fmt: skip


def _run_commands(task: Task, source: bytes) -> tuple[Found, None]:
    from understudy.campaign import perform_commands as commands

    text = source.decode("utf-8", "replace")
    kind = task.generator or generated_kind(task.program)
    if kind == "aql":
        left, seconds = commands.run_aql(task, text, task.agent or DEFAULT_AGENT)
    else:
        left, seconds = (commands.run_refsi if kind == "refsi" else commands.run_acceldev)(task, text)
    return Found(left, text.count("\n"), seconds), None


def run_kernel(code: bytes, agent: str, task: Task, name: str = "k") -> Found:
    """Run a kernel of the generators over its 256 work-items. What was loaded last stays loaded for the next."""
    began = time.perf_counter()
    with GPUS.lent(agent, task) as gpu:
        executable = GPUS.loaded(code)
        if task.limit is not None:
            gpu.device.engine.limit = executable.base + task.limit
        numbers = gpu.array(_INPUT)
        out = gpu.zeros(opencl.GRID, np.uint64)
        sums = gpu.array(_SUMS)
        result = gpu.run(executable, name, opencl.GRID, opencl.GROUP, [out, numbers, sums])
        data = out.tobytes() + sums.tobytes()
        for array in (numbers, out, sums):
            gpu.free(array)
    return Found(data, result.instructions, time.perf_counter() - began)


def _numbers(count: int) -> Any:
    """Numbers of all sizes, the same everywhere."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    state ^= state >> np.uint64(29)
    return (state >> (np.arange(count, dtype=np.uint64) % np.uint64(60))).astype(np.uint32)


_INPUT: Final = _numbers(opencl.GRID)
_SUMS: Final = _numbers(opencl.SUMS) | np.uint32(0x5555_0000)


RUNNERS: Final[dict[str, Callable[[Task, bytes], tuple[Found, Compiled | None]]]] = {
    "opencl": _run_opencl,
    "gcn": _run_gcn,
    "rv64": _run_rv64,
    "refsi": _run_commands,
    "acceldev": _run_commands,
    "aql": _run_commands,
}
