"""A campaign on Dask: its scheduler places batches, brings results, and repeats what was lost with a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from understudy.campaign.dataset import Dataset, count, need
from understudy.campaign.errors import CampaignError
from understudy.campaign.plan import Plan
from understudy.campaign.task import Task
from understudy.campaign.worker import REFUSED, lacking, row_of, run_batch

AHEAD: Final = 3
"""Batches for each thread of a worker that are under way."""
LOST: Final = 10
"""Workers that may end during a batch before it is no longer given to another one."""
CONNECT_SECONDS: Final = 30


@dataclass
class Progress:
    """How far a campaign is. `done` are tasks whose results are on disk."""

    total: int
    done: int = 0
    resumed: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    workers: int = 0
    dashboard: str = ""


@contextmanager
def connected(scheduler: str, workers: int) -> Iterator[Any]:
    """A client of a scheduler: the one at an address, or of a cluster of its own on this machine, of `workers`."""
    distributed = need("distributed")
    if scheduler:
        try:
            _knock(distributed, scheduler)
            client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise CampaignError(f"cannot reach the scheduler {scheduler}: {error}") from None
        with client:
            yield client
        return
    settings = {"distributed.scheduler.allowed-failures": LOST, "distributed.worker.daemon": False}
    with (
        need("dask").config.set(settings),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _knock(distributed: Any, scheduler: str) -> None:
    """Connect to a scheduler once: a client that reaches none leaves its thread behind."""

    async def knock() -> None:
        await (await distributed.comm.connect(scheduler, timeout=CONNECT_SECONDS)).close()

    with ThreadPoolExecutor(1) as pool:  # this thread may have a loop of its own, as notebooks do
        pool.submit(asyncio.run, knock()).result()


def run(
    plan: Plan,
    dataset: Dataset,
    client: Any,
    command: tuple[str, ...],
    *,
    told: Callable[[Progress], object] = lambda progress: None,
) -> Progress:
    """Run what a dataset does not have yet of a plan; `told` hears of every step.

    `command` is the worker's child. `CampaignError` where a worker lacks a compiler, where the plan asks for what is
    not there, and where results cannot be written; what was reported is kept in all cases.
    """
    _check(client, plan.compilers)
    known = dataset.outcomes()
    progress = Progress(len(plan), dashboard=_link(client))
    runner = _Runner(plan, dataset, client, command, progress, told)
    wanted = []
    for task in plan.tasks():
        if task.id in known:
            progress.done += 1
            progress.resumed += 1
            progress.outcomes[known[task.id]] = progress.outcomes.get(known[task.id], 0) + 1
        else:
            wanted.append(task)
    told(progress)
    runner.run(iter(wanted))
    dataset.compact()
    progress.outcomes = count(dataset.outcomes().values())
    return progress


def _link(client: Any) -> str:
    """Where Dask's pages are shown; "" without bokeh, which draws them."""
    try:
        need("bokeh")
    except CampaignError:
        return ""
    return str(client.dashboard_link)


def _check(client: Any, compilers: Sequence[str]) -> None:
    """`CampaignError` that names workers without one of the compilers; waits for the first worker."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        found = client.run(lacking, compilers, on_error="return")
    except (OSError, TimeoutError) as error:
        raise CampaignError(f"no worker has come within {CONNECT_SECONDS} s: {error}") from None
    for worker, missing in sorted(found.items()):
        if isinstance(missing, Exception):
            raise CampaignError(f"worker {worker} cannot run tasks: {type(missing).__name__}: {missing}")
        if missing:
            raise CampaignError(f"worker {worker} has no compiler {' and no '.join(missing)}")


class _Runner:
    """Keeps batches under way, and puts what comes of them on disk."""

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        client: Any,
        command: tuple[str, ...],
        progress: Progress,
        told: Callable[[Progress], object],
    ) -> None:
        self._plan, self._dataset, self._client, self._command = plan, dataset, client, command
        self._progress, self._told = progress, told
        self._under_way: dict[Any, Sequence[Task]] = {}

    def run(self, tasks: Iterator[Task]) -> None:
        """All of them."""
        distributed = need("distributed")
        arriving = distributed.as_completed(loop=self._client.loop, raise_errors=False, with_results=True)
        try:
            self._feed(tasks, arriving)
            while self._under_way:
                batches = next(arriving.batches())
                rows: list[dict[str, Any]] = []
                again: list[Task] = []
                for future, result in batches:
                    sent = self._under_way.pop(future)
                    if future.status == "finished":
                        rows += result
                    else:
                        more, lost = self._lost(future, sent)
                        rows += more
                        again += lost
                    future.release()
                self._keep(rows)
                for task in again:
                    self._submit([task], arriving)
                self._feed(tasks, arriving)
        finally:
            self._client.cancel(list(self._under_way), force=True)

    def _feed(self, tasks: Iterator[Task], arriving: Any) -> None:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        self._progress.workers = len(workers)
        room = AHEAD * max(1, sum(each["nthreads"] for each in workers.values()))
        while len(self._under_way) < room and (batch := list(islice(tasks, self._plan.batch))):
            self._submit(batch, arriving)

    def _submit(self, batch: Sequence[Task], arriving: Any) -> None:
        data = {name: self._plan.data(name) for name in {task.program for task in batch if not task.generator}}
        future = self._client.submit(run_batch, batch, data, self._command, self._plan.together, pure=False)
        self._under_way[future] = batch
        arriving.add(future)

    def _lost(self, future: Any, sent: Sequence[Task]) -> tuple[list[dict[str, Any]], list[Task]]:
        """What is to be said of a batch that did not come back: its tasks are tried one by one, and blamed then."""
        error = future.exception()
        if type(error).__name__ != "KilledWorker":
            raise CampaignError(f"a worker cannot run tasks: {type(error).__name__}: {error}")
        if len(sent) > 1:
            return [], list(sent)
        text = f"{LOST} workers ended while it ran"
        found = {"outcome": "died", "signature": "died worker", "message": text}
        return [row_of(sent[0], 0) | found], []

    def _keep(self, rows: Sequence[dict[str, Any]]) -> None:
        refused = next((row for row in rows if row["outcome"] == REFUSED), None)
        good = [row for row in rows if row["outcome"] != REFUSED]
        self._dataset.append(good)
        for row in good:
            self._progress.done += 1
            self._progress.outcomes[row["outcome"]] = self._progress.outcomes.get(row["outcome"], 0) + 1
        self._told(self._progress)
        if refused is not None:
            place = f"{self._plan.path}:{refused['line']}"
            raise CampaignError(f"{refused['message']} (worker {refused['worker']})").at("line", place)
