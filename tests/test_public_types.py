"""The types of the public signatures: none is `Any`, and keywords are those of the definitions that they stand for."""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from mypy import api as mypy

from softcard.campaign.dataset import schema
from softcard.campaign.task import Row
from softcard.core.settings import DeviceOptions, DeviceSettings, KernelOptions, KernelSettings
from softcard.device.acceldev.settings import AcceldevOptions
from softcard.device.acceldev.settings import Settings as AcceldevSettings
from softcard.device.amdcl2.settings import ProgramOptions
from softcard.device.amdcl2.settings import Settings as ProgramSettings
from softcard.device.fletcher.kernel import MapOptions
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.settings import FletcherOptions
from softcard.device.fletcher.settings import Settings as FletcherSettings
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.queues.packets import KernelDispatchPacket, PacketFields, SizedPacketFields
from softcard.device.hsa.settings import GpuOptions
from softcard.device.hsa.settings import Settings as GpuSettings
from softcard.device.refsi.settings import RefSiOptions
from softcard.device.refsi.settings import Settings as RefSiSettings
from softcard.engine.gcn.api import Dispatch
from softcard.host.amdcl2.program import RunOptions, check_options
from softcard.host.hsa.gpu import DispatchOptions, Gpu, QueueOptions

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
FACES = ["acceldev", "amdcl2", "fletcher", "gcn", "hsa", "refsi", "riscv", "testing"]
WHOLE = ["host", "campaign", "testing"]
"""Packages all of whose modules users may import."""
CALLS = ("__init__", "__call__", "__getitem__", "__setitem__", "__iter__", "__enter__", "__exit__", "__reduce__")
OPTIONS = {
    DeviceOptions: DeviceSettings,
    KernelOptions: KernelSettings,
    GpuOptions: GpuSettings,
    ProgramOptions: ProgramSettings,
    RefSiOptions: RefSiSettings,
    AcceldevOptions: AcceldevSettings,
    FletcherOptions: FletcherSettings,
}


# ---- no Any ----------------------------------------------------------------------------------------------------------


def modules() -> list[types.ModuleType]:
    names = ["softcard", *(f"softcard.{name}" for name in FACES)]
    for name in WHOLE:
        package = importlib.import_module(f"softcard.{name}")
        names += (each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    names = [name for name in dict.fromkeys(names) if not name.startswith("softcard.host.triton.")]  # needs Triton
    return [importlib.import_module(name) for name in names]


def exported(module: types.ModuleType) -> Iterator[object]:
    for name in getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]:
        value = getattr(module, name)
        value = value._get_wrapped_function() if hasattr(value, "_get_wrapped_function") else value  # a fixture
        is_own = hasattr(module, "__all__") or getattr(value, "__module__", "") == module.__name__
        if is_own and (inspect.isclass(value) or inspect.isfunction(value)):
            yield value


def signatures() -> Iterator[tuple[str, str, str]]:
    """Yield the module, the place and the text of each annotation of a public signature or attribute."""
    left, seen = [each for module in modules() for each in exported(module)], set()
    while left:
        found = left.pop()
        if found in seen or not found.__module__.startswith("softcard"):
            continue
        seen.add(found)
        place = f"{found.__module__}.{found.__qualname__}"
        for name, annotation in getattr(found, "__annotations__", {}).items():
            if inspect.isfunction(found) or not name.startswith("_"):
                yield found.__module__, f"{place}, {name}", str(annotation)
        if inspect.isfunction(found):
            for each in typing.get_overloads(found):
                for name, annotation in each.__annotations__.items():
                    yield found.__module__, f"{place}, {name}", str(annotation)
        else:
            left += found.__mro__[1:-1]
            for name, value in vars(found).items():
                if not name.startswith("_") or name in CALLS:
                    left += members(value)


def members(value: object) -> list[object]:
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset) if each is not None]
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, functools.cached_property):
        value = value.func
    return [inspect.unwrap(value)] if inspect.isfunction(value) else []


@functools.cache
def aliases(module: str) -> dict[str, str]:
    """Return the types that a module names by an assignment, and those that it imports, by name: their text."""
    path = SOURCE / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softcard"):
            for each in node.names:
                origin = SOURCE / node.module.replace(".", "/")
                if origin.with_suffix(".py").is_file() and each.name in (own := own_aliases(node.module)):
                    found[each.asname or each.name] = own[each.name]
    return found | own_aliases(module)


@functools.cache
def own_aliases(module: str) -> dict[str, str]:
    path = SOURCE / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            found[target.id] = ast.unparse(node.value)
    return found


def hides_any(text: str, module: str) -> bool:
    words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
    known = aliases(module)
    return "Any" in words or any("Any" in re.findall(r"\w+", known[word]) for word in words & known.keys())


def test_no_public_signature_has_any():
    found = list(signatures())
    assert len(found) > 2000  # the walk has reached all of it
    assert [f"{place}: {text}" for module, place, text in found if hides_any(text, module)] == []


def test_the_walk_finds_any_in_a_signature_and_in_an_alias(monkeypatch):
    assert hides_any("list[Any] | None", "softcard.host.hsa.gpu")
    assert not hides_any("AnyBuffer", "softcard.host.fletcher.platform")
    monkeypatch.setitem(own_aliases("softcard.host.hsa.arguments"), "Given", "int | Any")
    aliases.cache_clear()
    assert hides_any("Sequence[Given] | bytes", "softcard.host.hsa.gpu")
    aliases.cache_clear()


# ---- keywords --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "settings"), OPTIONS.items(), ids=lambda each: each.__name__)
def test_options_are_the_settings_with_their_types(options, settings):
    types_of = typing.get_type_hints(settings)
    assert typing.get_type_hints(options) == {each.name: types_of[each.name] for each in fields(settings)}
    assert not options.__required_keys__


def keywords(function, but: tuple[str, ...] = ()) -> dict[str, str]:
    parameters = inspect.signature(function).parameters
    return {name: str(each.annotation) for name, each in parameters.items() if name not in ("self", *but)}


def texts(options) -> dict[str, str]:
    return {name: each.__forward_arg__ for name, each in options.__annotations__.items()}


def test_options_of_calls_are_the_parameters_of_the_calls_behind_them():
    own = "kernel", "grid", "group", "args"
    assert texts(DispatchOptions) == keywords(Gpu.dispatch, own)
    assert texts(QueueOptions) == keywords(HsaDevice.create_queue, ("size", "type"))
    assert texts(MapOptions) == keywords(fletcher_map, ("batches", "custom"))
    packet = {name: each for name, each in KernelDispatchPacket.__annotations__.items() if name != "dimensions"}
    assert texts(SizedPacketFields) == packet
    assert texts(PacketFields).items() <= packet.items()


def test_options_of_a_run_are_those_of_a_dispatch_of_the_engine():
    dispatch = {each.name: each.type for each in fields(Dispatch)}
    own = texts(RunOptions)
    assert own.pop("time_limit_seconds") == "float | None"
    assert own.keys() <= dispatch.keys()
    assert {name: text for name, text in own.items() if name != "step_limit"}.items() <= dispatch.items()
    check_options(dict.fromkeys(("step_limit", "turn", "seed", "poison", "time_limit_seconds"), 1))


def test_rows_of_a_campaign_have_the_columns_of_its_dataset():
    kinds = {"string": str, "int64": int, "double": float}
    columns = {each.name: kinds.get(str(each.type), list[str]) for each in schema()}
    assert typing.get_type_hints(Row) == columns


# ---- a type checker --------------------------------------------------------------------------------------------------

PROGRAM = """\
import numpy as np
from softcard import Acceldev, Gpu, Platform, RefSi, load

with Gpu.open("gfx900", check="memory", on_finding="keep", threads=1) as gpu:
    x = gpu.array(np.arange(4, dtype=np.float32))
    y = gpu.zeros(4, np.int32)
    result = gpu.run("a.co", "k", grid=4, args=[2.0, x, y, None], group_bytes=16)
    reveal_type(x)
    reveal_type(y)
    reveal_type(gpu.findings[0].kind)
    print(x * 2 + y, result.instructions)
with RefSi.open(vlen=128) as device:
    a, b = device.array(np.arange(4, dtype=np.int32)), device.zeros(4)
    reveal_type(a.array)
    print(a.array + b.array)
Gpu.open(engin="jit")
Gpu.open(threads="two")
RefSi.open(cores=None)
Acceldev.open(pacing="1")
Platform.open("sum", profil="spec")
load("a.bin").kernel("k").run(4, args=[object()])
gpu.run("a.co", "k", grid=4, group_byte=16)
"""


def checked(*arguments: str) -> list[str]:
    options = ["--strict", "--no-error-summary", "--config-file", "", "--ignore-missing-imports"]
    return mypy.run([*options, *arguments])[0].splitlines()


@pytest.mark.slow
def test_a_type_checker_refuses_wrong_settings_and_knows_the_types_of_arrays(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    # The cache of an earlier run names the folder of that run.
    reported = [line.partition("/program.py:")[2] for line in checked(str(file)) if "/program.py:" in line]
    shown = [line.partition("type is ")[2] for line in reported if ": note: Revealed" in line]
    assert [re.findall(r"floating|signedinteger|float32|int32|str", text)[:1] for text in shown] == [
        ["floating"], ["signedinteger"], ["str"], ["signedinteger"],
    ]  # fmt: skip
    lines = PROGRAM.splitlines()
    wrong = {int(line.partition(":")[0]) for line in reported if ": error:" in line}
    assert wrong == set(range(lines.index('Gpu.open(engin="jit")') + 1, len(lines) + 1))


@pytest.mark.slow
def test_a_type_checker_finds_nothing_in_the_examples():
    assert checked(*map(str, sorted((ROOT / "examples").rglob("*.py")))) == []
