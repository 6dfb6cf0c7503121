"""The execution of one task on a device that tasks reuse.

A task generates or reads its program, compiles and runs it, and returns result columns.
"""

from __future__ import annotations

import hashlib
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from numpy.typing import NDArray

from softcard.campaign.compilation import NATIVE, Compiled, CompilerCrash, compile_generated, run_native
from softcard.campaign.generators import opencl
from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.task import Row, Task
from softcard.campaign.worker import REFUSED
from softcard.core.errors import BeyondModel, ModelBug, SoftcardError
from softcard.core.limits import TimeLimit
from softcard.core.lint import FindingWarning, LintWarning
from softcard.host.compiling import CompileError, CompileTimeLimit, NoCompiler

if TYPE_CHECKING:
    from softcard.device.hsa.settings import GpuOptions
    from softcard.engine.gcn.tiered.engine import JitEngine
    from softcard.host.hsa.executable import Executable
    from softcard.host.hsa.gpu import Gpu


# ---- the reused device -----------------------------------------------------------------------------------------------
# A GPU device that a worker reuses from task to task, with the code that was loaded on it last.


class CachedGpu:
    """A GPU device that is reused until a task needs other settings or fails."""

    def __init__(self) -> None:
        self._settings: tuple[object, ...] = ()
        self._opened = ExitStack()
        self._gpu: Gpu | None = None
        self._code = b""
        self._executable: Executable | None = None

    @contextmanager
    def device(self, agent: str, task: Task) -> Iterator[Gpu]:
        """Provide a device of `agent` for a task; if the block raises, the device is closed."""
        try:
            yield self._get(agent, task)
        except BaseException:
            self.drop()
            raise

    def _get(self, agent: str, task: Task) -> Gpu:
        from softcard.engine.gcn.tiered.engine import JitEngine
        from softcard.host.hsa.gpu import Gpu

        seed = task.seed if task.check == "strict" else 0
        settings = (agent, task.engine, task.check, seed, task.time_limit, task.limit)
        if self._gpu is None or settings != self._settings:
            self.drop()
            options: GpuOptions = {"engine": task.engine, "time_limit_seconds": task.time_limit}
            if task.check == "strict":
                options |= {"coherence": "strict", "seed": seed}
            self._gpu = self._opened.enter_context(Gpu.open(agent, exact=task.check == "exact", **options))
            engine = self._gpu.device.engine
            if isinstance(engine, JitEngine):  # a generated program does not recur: caching it would evict others
                engine.caches_programs = False
            self._settings = settings
        return self._gpu

    def loaded(self, gpu: Gpu, code: bytes) -> Executable:
        """Load `code` on the device `gpu` in place of the code loaded before; return the loaded executable.

        If the same code is loaded already, return its executable."""
        if self._executable is None or code != self._code:
            if self._executable is not None:
                self._executable.unload()
            self._code, self._executable = code, None
            self._executable = gpu.load(code)
        return self._executable

    def drop(self) -> None:
        """Close the device."""
        self._settings, self._executable = (), None
        self._opened.close()


GPU_CACHE: Final = CachedGpu()
"""The cached device of this process."""


# ---- one task --------------------------------------------------------------------------------------------------------
MOST_MESSAGE: Final = 4000
MOST_FINDINGS: Final = 20
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\b\d+\b")
DEFAULT_AGENT: Final = "gfx900"


@dataclass(slots=True)
class RunResult:
    """The result of a run that ended normally: the result bytes, and run statistics.

    The bytes must be equal in all runs of the program.
    """

    result: bytes
    instructions: int
    seconds: float
    wrong: str = ""


Runner = Callable[[Task, bytes], tuple[RunResult, Compiled | None]]
"""The type of a function that runs a task, given the content of its program's file."""


def perform(task: Task, data: bytes, run: Runner) -> Row:
    """Run a task with `run` and return its result columns.

    An exception that `run` raises determines the task's outcome, and warnings become findings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LintWarning)
        warnings.simplefilter("always", FindingWarning)
        columns = _performed(task, data, run)
    messages = (str(each.message) for each in caught if issubclass(each.category, (LintWarning, FindingWarning)))
    return columns | {"findings": list(dict.fromkeys(messages))[:MOST_FINDINGS]}


def _performed(task: Task, data: bytes, run: Callable[[Task, bytes], tuple[RunResult, Compiled | None]]) -> Row:
    try:
        found, compiled = run(task, data)
    except SoftcardError as error:
        return outcome_of(error)
    except Exception as error:  # noqa: BLE001  # a bug of Softcard is an outcome too, and the next task is run
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = "" if where is None else f" in {where.tb_frame.f_code.co_name}"
        text = f"{type(error).__name__}: {error}"
        return {"outcome": "bug", "signature": f"bug {type(error).__name__}{place}", "message": text[:MOST_MESSAGE]}
    columns: Row = {
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


def outcome_of(error: SoftcardError) -> Row:
    """Return the columns `outcome`, `signature` and `message` for an error that ended a task.

    The signature has the outcome and the violated rule, or the first line of the message with numbers replaced by
    N."""
    kind = {
        NoCompiler: REFUSED, CompilerCrash: "crash", CompileError: "refused-source", TimeLimit: "timeout",
        CompileTimeLimit: "timeout",
        BeyondModel: "beyond", ModelBug: "bug",
    }  # fmt: skip
    outcome = next((name for each, name in kind.items() if isinstance(error, each)), "fault")
    about = error.where if isinstance(error, CompilerCrash) else error.rule.id if error.rule else error.message
    signature = f"{outcome} {_NUMBERS.sub('N', about.splitlines()[0] if about else '')}"[:200]
    return {"outcome": outcome, "signature": signature, "message": str(error)[:MOST_MESSAGE]}


def generated_kind(program: str) -> str:
    """Return the name of the generator that made a program's file, by its suffix; "" for other files."""
    suffixes = "".join(PurePath(program).suffixes[-2:])
    return next((name for name, each in GENERATORS.items() if each.suffix == suffixes), "")


def run_generated(task: Task, data: bytes) -> tuple[RunResult, Compiled | None]:
    """Run a generated program: the program of the task's seed, or the one in the task's file."""
    kind = GENERATORS[task.generator].runs_as if task.generator else generated_kind(task.program)
    source = GENERATORS[task.generator].seeded(task.seed).text().encode() if task.generator else data
    return _run_native(kind, source, task) if task.engine == NATIVE else RUNNERS[kind](task, source)


def _run_native(kind: str, source: bytes, task: Task) -> tuple[RunResult, Compiled]:
    """Run a program of generator `kind` on the host's processor."""
    memory = _INPUT.tobytes() + _SUMS.tobytes() if kind == "opencl" else b""
    output, seconds, compiled = run_native(source, kind, memory, task.time_limit)
    return RunResult(output, 0, seconds), compiled


# ---- compiled programs -----------------------------------------------------------------------------------------------


def _run_opencl(task: Task, source: bytes) -> tuple[RunResult, Compiled]:
    agent = task.agent or DEFAULT_AGENT
    compiled = compile_generated(source, "opencl", agent, task.compiler, task.options, task.time_limit)
    return run_kernel(compiled.code, agent, task), compiled


def _run_rv64(task: Task, source: bytes) -> tuple[RunResult, Compiled]:
    compiled = compile_generated(source, "rv64", "", task.compiler, task.options, task.time_limit)
    return run_rv64(compiled.code, task), compiled


def run_rv64(code: bytes, task: Task) -> RunResult:
    """Run an RV64 program, whose output is its result."""
    from softcard.engine.riscv.jit.engine import JitEngine
    from softcard.host.rv64.run import ENGINES, RV64
    from softcard.ir import llvm

    engine = ENGINES[task.engine]()
    if task.limit is not None:
        # Translate at first use: with a limit in the middle of a loop its code would never get hot.
        engine = JitEngine(tier=llvm.QUICK)
        engine.limit = task.limit
    result = RV64.run(code, engine=engine, time_limit_seconds=task.time_limit)
    wrong = f"the program ended with exit status {result.status}, expected 0" if result.status else ""
    return RunResult(result.console, result.instructions, result.time, wrong=wrong)


def _run_gcn(task: Task, source: bytes) -> tuple[RunResult, None]:
    agent = task.agent or DEFAULT_AGENT
    return run_kernel(assembled(source.decode("utf-8", "replace"), agent), agent, task), None


def assembled(source: str, agent: str) -> bytes:
    """Assemble the generated GCN source of a kernel ``k``; return its code object."""
    from softcard.image.hsa.writer import bare_code_object
    from softcard.isa.gcn.asm.assembler import assemble
    from softcard.isa.gcn.target import target

    code = assemble(target(agent), source)
    return bare_code_object(
        code, agent, name="k", vgprs=24, sgprs=48, kernarg_bytes=24, lds_bytes=4 * opencl.GROUP,
        user_sgprs=("kernarg_segment_ptr",),
    )  # fmt: skip


def _run_commands(task: Task, source: bytes) -> tuple[RunResult, None]:
    from softcard.campaign import perform_commands as commands

    text = source.decode("utf-8", "replace")
    kind = task.generator or generated_kind(task.program)
    if kind == "aql":
        left, seconds = commands.run_aql(task, text, task.agent or DEFAULT_AGENT)
    else:
        left, seconds = (commands.run_refsi if kind == "refsi" else commands.run_acceldev)(task, text)
    return RunResult(left, text.count("\n"), seconds), None


def run_kernel(code: bytes, agent: str, task: Task, name: str = "k") -> RunResult:
    """Run a generated kernel over its 256 work-items. Its code stays loaded for the next task."""
    began = time.perf_counter()
    with GPU_CACHE.device(agent, task) as gpu:
        executable = GPU_CACHE.loaded(gpu, code)
        if task.limit is not None:
            cast("JitEngine", gpu.device.engine).limit = executable.base + task.limit
        numbers = gpu.array(_INPUT)
        out = gpu.zeros(opencl.GRID, np.uint64)
        sums = gpu.array(_SUMS)
        result = gpu.run(executable, name, opencl.GRID, opencl.GROUP, [out, numbers, sums])
        data = out.tobytes() + sums.tobytes()
        for array in (numbers, out, sums):
            gpu.free(array)
    return RunResult(data, result.instructions, time.perf_counter() - began)


def _numbers(count: int) -> NDArray[np.uint32]:
    """Return `count` input numbers of all magnitudes; every machine gets the same numbers."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    state ^= state >> np.uint64(29)
    return (state >> (np.arange(count, dtype=np.uint64) % np.uint64(60))).astype(np.uint32)


_INPUT: Final = _numbers(opencl.GRID)
_SUMS: Final = _numbers(opencl.SUMS) | np.uint32(0x5555_0000)


RUNNERS: Final[dict[str, Runner]] = {
    "opencl": _run_opencl,
    "gcn": _run_gcn,
    "rv64": _run_rv64,
    "refsi": _run_commands,
    "acceldev": _run_commands,
    "aql": _run_commands,
}
