"""The execution of a campaign with Dask.

Dask distributes the batches of tasks, returns their results, and repeats the batches of lost workers.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import resource_tracker
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final, Protocol, Self, TypeVar

from softcard.campaign.dataset import Dataset, count, need
from softcard.campaign.plan import Plan
from softcard.campaign.task import CampaignError, Row, Task
from softcard.campaign.worker import REFUSED, lacking, row_of, run_batch

AHEAD: Final = 3
"""The number of batches that are submitted to Dask in advance for each thread of a worker."""
LOST: Final = 10
"""The number of workers that may end while running one batch; after that, the batch is not repeated any more."""
CONNECT_SECONDS: Final = 30
LOOPBACK: Final = "127.0.0.1"
ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a campaign after cleanup."""


@dataclass
class Progress:
    """The progress of a campaign.

    `done` counts tasks whose results are on disk; `resumed` counts those that earlier runs completed.
    """

    total: int
    done: int = 0
    resumed: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    workers: int = 0
    dashboard: str = ""


T = TypeVar("T")


class Client(Protocol):
    """The part of the interface of `distributed.Client` that campaigns use."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> bool | None: ...

    @property
    def dashboard_link(self) -> str:
        """The address of the dashboard."""

    @property
    def loop(self) -> object:
        """The event loop."""

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        """Wait until `n_workers` workers are connected, for at most `timeout` seconds."""

    def run(self, function: Callable[..., T], /, *args: object, on_error: str) -> dict[str, T | Exception]:
        """Call `function` on each worker; return its result, or the exception that it raised, by worker address."""

    def submit(self, function: Callable[..., object], /, *args: object, pure: bool) -> object:
        """Submit a call of `function` to any worker; return a future for its result."""

    def scheduler_info(self, n_workers: int) -> dict[str, dict[str, dict[str, int]]]:
        """Return the description of the scheduler and its workers."""

    def cancel(self, futures: Sequence[object], force: bool) -> None:
        """Cancel futures."""


@contextmanager
def connected(scheduler: str, workers: int) -> Iterator[Client]:
    """Provide a client of the scheduler at address `scheduler`, or for "" a new local cluster of `workers`."""
    distributed = need("distributed")
    if scheduler:
        try:
            _probe(distributed, scheduler)
            client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise CampaignError(f"cannot reach the scheduler {scheduler}: {error}") from None
        with client:
            yield client
        return
    with ExitStack() as stack:
        yield stack.enter_context(_own_client(distributed, workers, stack))


def _own_client(distributed: ModuleType, workers: int, stack: ExitStack) -> Client:
    """Return a client of a new cluster on this machine; `stack` shuts the cluster down and deletes its files."""
    security = _security(distributed)
    folder = stack.enter_context(TemporaryDirectory(prefix="softcard-campaign-", ignore_cleanup_errors=True))
    settings = {
        "distributed.scheduler.allowed-failures": LOST,
        "distributed.worker.daemon": False,
        "temporary-directory": folder,
    }
    stack.enter_context(need("dask").config.set(settings))
    loop = stack.enter_context(_loop_without_interrupts(distributed))
    with _signals_deferred():  # a cluster that is half started cannot be shut down
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
            security=security,
            loop=loop,
            silence_logs=50,
        )
        stack.enter_context(cluster)
        client: Client = distributed.Client(cluster, set_as_default=False)
        return client


def _security(distributed: ModuleType) -> Any:
    """Return the TLS settings of one cluster: a new key, which only this process and its workers have.

    Every user of this machine can connect to a loopback port, and a scheduler runs the code that its clients send. So
    both sides of each connection must show the certificate. The key stays in memory; workers get it through their
    pipes.
    """
    need("cryptography")
    return distributed.Security.temporary()


@contextmanager
def _loop_without_interrupts(distributed: ModuleType) -> Iterator[Any]:
    """Provide an event loop whose thread, and all processes that it starts, ignore Ctrl-C.

    A terminal sends Ctrl-C to every process of the command, and each worker would end with a traceback. Instead, this
    process shuts the workers down.
    """
    runner = distributed.utils.LoopRunner(asynchronous=False)
    resource_tracker.ensure_running()  # now: starting it later would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer signals that end the process until the block is left; only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDS}
    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, lambda number, _: pending.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in pending:
            signal.raise_signal(each)


def _probe(distributed: ModuleType, scheduler: str) -> None:
    """Connect to the scheduler once to check its address.

    A Dask client would leak a thread if it could not reach the scheduler.
    """

    async def probe() -> None:
        tls = distributed.Security().get_connection_args("client")
        await (await distributed.comm.connect(scheduler, timeout=CONNECT_SECONDS, **tls)).close()

    with ThreadPoolExecutor(1) as pool:  # this thread may run an event loop already, as notebooks do
        pool.submit(asyncio.run, probe()).result()


def run(
    plan: Plan,
    dataset: Dataset,
    client: Client,
    command: tuple[str, ...],
    *,
    on_progress: Callable[[Progress], object] = lambda progress: None,
) -> Progress:
    """Run the tasks of `plan` whose results `dataset` lacks; call `on_progress` after every step.

    `command` starts the child process of a worker. Raise `CampaignError` if a worker lacks a compiler, if the plan asks
    for something that does not exist, or if results cannot be written; results that arrived before the error are on
    disk.
    """
    _check(client, plan.compilers)
    known = dataset.outcomes()
    progress = Progress(len(plan), dashboard=_link(client))
    runner = _Runner(plan, dataset, client, command, progress, on_progress)
    wanted = []
    for task in plan.tasks():
        if task.id in known:
            progress.done += 1
            progress.resumed += 1
            progress.outcomes[known[task.id]] = progress.outcomes.get(known[task.id], 0) + 1
        else:
            wanted.append(task)
    on_progress(progress)
    runner.run(iter(wanted))
    dataset.compact()
    progress.outcomes = count(dataset.outcomes().values())
    return progress


def _link(client: Client) -> str:
    """Return the address of Dask's dashboard; "" if the package bokeh, which draws the dashboard, is missing."""
    try:
        need("bokeh")
    except CampaignError:
        return ""
    return str(client.dashboard_link)


def _check(client: Client, compilers: Sequence[str]) -> None:
    """Wait for the first worker, and raise `CampaignError` if a worker lacks one of the compilers."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        found = client.run(lacking, compilers, on_error="return")
    except (OSError, TimeoutError) as error:
        raise CampaignError(f"no worker has connected to the scheduler within {CONNECT_SECONDS} s: {error}") from None
    for worker, missing in sorted(found.items()):
        if isinstance(missing, Exception):
            raise CampaignError(f"worker {worker} cannot run tasks: {type(missing).__name__}: {missing}")
        if missing:
            raise CampaignError(f"worker {worker} has no compiler {' and no '.join(missing)}")


class _Runner:
    """The loop that submits batches, a limited number at a time, and writes their results to disk."""

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        client: Client,
        command: tuple[str, ...],
        progress: Progress,
        on_progress: Callable[[Progress], object],
    ) -> None:
        self._plan, self._dataset, self._client, self._command = plan, dataset, client, command
        self._progress, self._on_progress = progress, on_progress
        self._running: dict[object, Sequence[Task]] = {}

    def run(self, tasks: Iterator[Task]) -> None:
        """Run all tasks and write their results."""
        distributed = need("distributed")
        arriving = distributed.as_completed(loop=self._client.loop, raise_errors=False, with_results=True)
        try:
            self._feed(tasks, arriving)
            while self._running:
                batches = next(arriving.batches())
                rows: list[Row] = []
                retried: list[Task] = []
                for future, result in batches:
                    sent = self._running.pop(future)
                    if future.status == "finished":
                        rows += result
                    else:
                        more, lost = self._lost(future, sent)
                        rows += more
                        retried += lost
                    future.release()
                self._record(rows)
                for task in retried:
                    self._submit([task], arriving)
                self._feed(tasks, arriving)
        finally:
            self._client.cancel(list(self._running), force=True)

    def _feed(self, tasks: Iterator[Task], arriving: Any) -> None:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        self._progress.workers = len(workers)
        room = AHEAD * max(1, sum(each["nthreads"] for each in workers.values()))
        while len(self._running) < room and (batch := list(islice(tasks, self._plan.batch))):
            self._submit(batch, arriving)

    def _submit(self, batch: Sequence[Task], arriving: Any) -> None:
        data = {name: self._plan.data(name) for name in {task.program for task in batch if not task.generator}}
        future = self._client.submit(run_batch, batch, data, self._command, self._plan.together, pure=False)
        self._running[future] = batch
        arriving.add(future)

    def _lost(self, future: Any, sent: Sequence[Task]) -> tuple[list[Row], list[Task]]:
        """Return the result rows and the tasks to retry of a batch whose workers have died.

        `sent` has the tasks of the batch. The tasks of such a batch are retried one by one. A task gets a row, with
        the outcome "died", only if it was the only task of its batch. So a task that kills its worker does not affect
        the outcomes of other tasks."""
        error = future.exception()
        if type(error).__name__ != "KilledWorker":
            raise CampaignError(f"a worker cannot run tasks: {type(error).__name__}: {error}")
        if len(sent) > 1:
            return [], list(sent)
        text = f"{LOST} workers ended while this task ran"
        found: Row = {"outcome": "died", "signature": "died worker", "message": text}
        return [row_of(sent[0], 0) | found], []

    def _record(self, rows: Sequence[Row]) -> None:
        refused = next((row for row in rows if row["outcome"] == REFUSED), None)
        good = [row for row in rows if row["outcome"] != REFUSED]
        self._dataset.append(good)
        for row in good:
            self._progress.done += 1
            self._progress.outcomes[row["outcome"]] = self._progress.outcomes.get(row["outcome"], 0) + 1
        self._on_progress(self._progress)
        if refused is not None:
            place = f"{self._plan.path}:{refused['line']}"
            raise CampaignError(f"{refused['message']} (worker {refused['worker']})").at("line", place)
