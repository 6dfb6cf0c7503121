"""Every error of the package survives pickle, copy and a pool of processes: campaigns run in many of them."""

import copy
import copyreg
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

import softcard
from softcard.core.errors import AccessFault, SoftcardError, WireError
from softcard.core.rule import Rule
from softcard.device.acceldev.memory import PageFault

RULE = Rule("acceldev/feed-error", "Device Commands", "Submitting when the queue is full raises FEED_ERROR.")


def _pickled(error: SoftcardError, protocol: int) -> SoftcardError:
    return pickle.loads(pickle.dumps(error, protocol))


CARRIERS = {
    **{f"pickle {n}": partial(_pickled, protocol=n) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


NEED_TRITON = {
    "softcard.triton",
    "softcard.host.triton.driver",
    "softcard.host.triton.compiler",
    "softcard.host.triton.pytorch",
    "softcard.host.triton.runtime",
}
"""Modules that import Triton, which is installed for its own tests only."""


def classes() -> list[type[SoftcardError]]:
    """The base and everything below it, in all modules of the package."""
    for module in pkgutil.walk_packages(softcard.__path__, "softcard."):
        if not module.name.endswith("__main__") and module.name not in NEED_TRITON:
            importlib.import_module(module.name)
    found, todo = [], [SoftcardError]
    while todo:
        cls = todo.pop()
        if cls.__module__.startswith("softcard."):
            found.append(cls)
            todo += cls.__subclasses__()
    return sorted(set(found), key=lambda cls: (cls.__module__, cls.__qualname__))


def sample(cls: type[SoftcardError]) -> SoftcardError:
    """One of the class, with what its constructor must have, an attribute, two places, a rule, a note and a cause."""
    positional, named = [], {}
    for number, (name, parameter) in enumerate(inspect.signature(cls).parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty or parameter.annotation in ("int", "str"):
            value = f"{name} {number}" if parameter.annotation == "str" else 64 + number
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[name] = value
            else:
                positional.append(value)
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(parameter.default)
    error = cls(*positional, **named)
    error.rule = RULE
    error.at("pc", 0x10294, "illegal word").at("lane", 7)
    error.add_note("seen in the second launch")
    error.seed = 41  # type: ignore[attr-defined]  # what a campaign notes on it
    cause = KeyError("register 9")
    error.__cause__ = AccessFault("no memory there", address=0x100, access="load")
    error.__cause__.__cause__ = cause
    return error


def assert_same(found: BaseException, error: SoftcardError) -> None:
    assert type(found) is type(error)
    assert found is not error
    assert (str(found), found.args) == (str(error), error.args)
    here, there = dict(vars(found)), dict(vars(error))
    for name in set(here) | set(there):
        assert repr(here[name]) == repr(there[name]), name
    assert (found.message, found.path, found.rule) == (error.message, error.path, error.rule)
    assert found.__notes__ == error.__notes__
    assert found.__suppress_context__ == error.__suppress_context__


CLASSES = classes()


def test_all_classes_were_found():
    names = {cls.__name__ for cls in CLASSES}
    assert names >= {"AccessFault", "DriverError", "DispatchRefused", "PacketRefused", "PageFault", "ServerError"}
    assert len(CLASSES) >= 36


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__.removeprefix('softcard.')}.{cls.__name__}")
def test_an_error_survives(cls, carrier):
    error = sample(cls)
    found = carrier(error)
    assert_same(found, error)
    cause = found.__cause__
    assert type(cause) is AccessFault
    assert (cause.address, cause.access, str(cause)) == (0x100, "load", "no memory there")
    assert repr(cause.__cause__) == "KeyError('register 9')"


class Awkward(Exception):
    """Somebody's exception that pickles and then does not come back."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


@pytest.fixture
def plain_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what another package (Dask's tblib) may have registered for all exceptions of this process."""
    for cls in [each for each in copyreg.dispatch_table if issubclass(each, BaseException)]:
        monkeypatch.delitem(copyreg.dispatch_table, cls)


@pytest.mark.usefixtures("plain_pickle")
@pytest.mark.parametrize("cause", [Awkward(1, 2), ValueError(threading.Lock())], ids=["not back", "not there"])
def test_a_cause_that_cannot_travel_is_reported_instead(cause):
    error = WireError("no command")
    error.__cause__ = cause
    found = pickle.loads(pickle.dumps(error))
    assert str(found) == "no command"
    assert str(found.__cause__) == f"{type(cause).__name__}: {cause}"
    assert copy.copy(error).__cause__ is cause  # in one process nothing is lost


def test_an_error_without_a_cause_keeps_what_it_suppresses():
    error = WireError("x")
    assert not pickle.loads(pickle.dumps(error)).__suppress_context__
    error.__suppress_context__ = True
    found = pickle.loads(pickle.dumps(error))
    assert found.__cause__ is None
    assert found.__suppress_context__


def raise_sample(number: int) -> None:
    """Run in a worker: raise the error of the class with this index."""
    raise sample(CLASSES[number])


def test_every_error_comes_back_from_a_pool_of_processes():
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        futures = [pool.submit(raise_sample, number) for number in range(len(CLASSES))]
        for cls, future in zip(CLASSES, futures, strict=True):
            found = future.exception(timeout=120)
            error = sample(cls)
            error.__suppress_context__ = found.__suppress_context__  # the pool puts the worker's traceback there
            assert_same(found, error)
            assert "register 9" in str(found.__cause__)
    assert PageFault in CLASSES
