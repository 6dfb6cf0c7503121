"""Long lives of one GPU: code comes and goes, launches fail, are interrupted, or are beyond a check; it stays usable.

What must hold: each error is one of ours (or the Ctrl-C); results are right; what failed harms no later launch.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.host.hsa.executable import Executable
from softcard.host.hsa.gpu import Gpu
from softcard.hsa import bare_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.hostile.checks import check_error, in_time

AGENTS: Final = ("gfx803", "gfx900")
CHECKS: Final = ("", "", "memory", "races", "races,lanes", "init,fidelity", "waits,sync", "all")
ITEMS: Final = 128
PROLOGUE: Final = """
    s_load_dwordx2 s[2:3], s[0:1], 0x0
    v_lshlrev_b32 v2, 2, v0
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v1, s3
    v_add_u32 v0, {carry}s2, v2
"""
"""v[0:1]: the address of the work-item's dword; v2: four times its number."""
END: Final = "\n    s_waitcnt vmcnt(0) lgkmcnt(0)\n    s_endpgm"
WILD: Final = (
    "s_mov_b32 s5, 0x80000000\ns_load_dword s6, s[4:5], 0x0",
    "v_mov_b32 v1, -1\nflat_store_dword v[0:1], v2",
    "v_mov_b32 v1, -1\nflat_atomic_add v3, v[0:1], v2 glc",
    "s_mov_b32 s4, 0\ns_mov_b32 s5, 0x12345\ns_setpc_b64 s[4:5]",
    "s_trap 1",
    "s_mov_b32 m0, -1\nds_write_b32 v1, v2 offset:65535",
)
ENDLESS: Final = ("again: s_branch again", "again: s_sleep 1\ns_branch again", "again: s_barrier\ns_branch again")


@cache
def code(agent: str, body: str) -> bytes:
    """A code object of one kernel; the stored values' address is its argument."""
    carry = "vcc, " if agent == "gfx803" else ""
    return bare_code_object(assemble(target(agent), PROLOGUE.format(carry=carry) + body + END), agent)


class Life:
    """A device, with what is loaded: executables, and the number that each one's kernel stores beside an item's own."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.agent = random.choice(AGENTS)
        self.check = random.choice(CHECKS)
        options: dict[str, Any] = {
            "execution": random.choice(["synchronous", "threaded"]), "threads": random.choice([1, 2]),
            "engine": random.choice(["jit", "jit", "jit", "reference"]), "exact": random.random() < 0.5,
        }  # fmt: skip
        self.gpu = Gpu.open(self.agent, check=self.check, step_limit=None, lints="off", **options)
        self.loaded: list[tuple[Executable, int]] = []
        self.reported: Counter[str] = Counter()

    def load(self) -> None:
        """Load code that stores a number of its own."""
        number = self.random.choice([3, 5, self.random.getrandbits(20)])
        body = f"v_xor_b32 v3, {number:#x}, v2\nflat_store_dword v[0:1], v3"
        self.loaded.append((self.gpu.load(code(self.agent, body)), number))

    def unload(self) -> None:
        """Unload some of it, by chance; it is refused from then on."""
        if self.loaded:
            gone, _ = self.loaded.pop(self.random.randrange(len(self.loaded)))
            gone.unload()
            try:
                self.run(gone, 0)
            except SoftcardError as error:
                assert "unloaded" in str(error)  # noqa: PT017 - an error is one of two right answers
            else:
                raise AssertionError("unloaded code ran")

    def launch(self) -> None:
        """Run what is loaded, one after the other."""
        for executable, number in self.loaded or [(self.gpu.load(code(self.agent, END)), -1)]:
            self.run(executable, number)

    def run(self, executable: Executable, number: int) -> None:
        """Run one, with an array of the device's or of the host's."""
        made: Callable[..., Any] = self.gpu.zeros if self.random.random() < 0.5 else np.zeros
        y = made(ITEMS, np.uint32)
        self.gpu.run(executable, "kernel", ITEMS, ITEMS, self.arguments(y))
        if number >= 0:
            assert y.tolist() == [4 * item ^ number for item in range(ITEMS)]
        if self.random.random() < 0.5 and made == self.gpu.zeros:
            self.gpu.free(y)

    def arguments(self, y: Any) -> bytes:
        """The kernarg segment."""
        return self.gpu.share(y).to_bytes(8, "little").ljust(256, b"\0")

    def wild(self) -> None:
        """Run what fails, or would on hardware."""
        body = self.random.choice(WILD)
        self.gpu.run(code(self.agent, body), "kernel", ITEMS, ITEMS, self.arguments(self.gpu.zeros(ITEMS)))

    def interrupt(self) -> None:
        """Press Ctrl-C while a kernel runs that does not end by itself; on the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return
        endless = self.gpu.load(code(self.agent, self.random.choice(ENDLESS)))
        over, after = threading.Event(), self.random.choice([0.0, 0.001, 0.02, 0.1])

        def press() -> None:
            seconds = after
            while not over.wait(seconds):  # again where Python has lost it in a callback of its own
                os.kill(os.getpid(), signal.SIGINT)
                seconds = 2.0

        pressing = threading.Thread(target=press)
        try:
            pressing.start()
            self.gpu.run(endless, "kernel", ITEMS, ITEMS, bytes(256))
        except KeyboardInterrupt:
            self.reported["Ctrl-C"] += 1
        over.set()
        pressing.join()
        endless.unload()

    def go_back(self) -> None:
        """Go back to a fresh device."""
        self.gpu.reset()
        self.loaded.clear()

    def step(self) -> None:
        """Do one thing, and see that the device is usable."""
        acts = [self.load, self.load, self.launch, self.launch, self.unload, self.wild, self.wild, self.interrupt]
        act = self.random.choice([*acts, self.go_back])
        try:
            act()
        except SoftcardError as error:
            check_error(error)
            self.reported[type(error).__name__] += 1
            if act != self.wild:
                raise AssertionError(act.__name__) from error
        body = "v_xor_b32 v3, 9, v2\nflat_store_dword v[0:1], v3"
        self.run(self.gpu.load(code(self.agent, body)), 9)


def check_life(seed: str, steps: int = 12) -> Counter[str]:
    """Run one life; return its errors by name."""
    life = Life(Random(seed))
    with life.gpu, in_time(60):
        for _ in range(steps):
            life.step()
    return life.reported
