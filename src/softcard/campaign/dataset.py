"""The results of a campaign: a Parquet dataset whose readers see only complete files.

Each file is written under a temporary name, flushed to disk and renamed, so that a process that is killed leaves only a
file that readers ignore. A task that was run twice counts once.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from softcard.campaign.task import CampaignError, Row

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER: Final = "results"
MOST_PARTS: Final = 64
"""The maximum number of small files in a dataset; if there are more, they are merged into one."""
SMALL_BYTES: Final = 4 << 20
"""The size in bytes below which a file counts as small."""
TEXTS: Final = (
    "id", "program", "content", "kernel", "input", "agent", "compiler", "options", "engine", "check", "outcome",
    "signature", "message", "digest", "compiler_version", "version", "machine", "worker",
)  # fmt: skip
NUMBERS: Final = ("seed", "line", "instructions", "started")
TIMES: Final = ("compile_seconds", "seconds")


def need(module: str, extra: str = "dask") -> ModuleType:
    """Import and return the module `module` of an optional dependency, which the package extra `extra` installs.

    If it is missing, raise `CampaignError` with the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError:
        text = f"campaigns need {module.partition('.')[0]}: pip install 'softcard[{extra}]'"
        raise CampaignError(text) from None


def _storable(row: Row) -> Mapping[str, object]:
    """Return `row` with messages that are valid UTF-8, as file names in messages may contain arbitrary bytes."""
    texts = {name: str(row[name]) for name in ("message", "signature") if name in row}
    return {**row, **{name: text.encode("utf-8", "backslashreplace").decode() for name, text in texts.items()}}


def schema() -> pa.Schema:
    """Return the columns of a dataset: `started` is in ms since 1970; `findings` has lints and findings."""
    pa = need("pyarrow")
    columns = [(name, pa.string()) for name in TEXTS] + [(name, pa.int64()) for name in NUMBERS]
    columns += [(name, pa.float64()) for name in TIMES] + [("findings", pa.list_(pa.string()))]
    return pa.schema(columns)


class Dataset:
    """The results of a campaign in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CampaignError(f"cannot make {self.folder}: {error.strerror}") from None

    def append(self, rows: Sequence[Row]) -> None:
        """Write rows to disk durably; raise `CampaignError` and change nothing if they cannot be written."""
        if rows:
            self._write(need("pyarrow").Table.from_pylist(list(map(_storable, rows)), schema=schema()))
        if len(parts := self._small()) > MOST_PARTS:
            self._join(parts)

    def compact(self) -> None:
        """Merge all small files into one, which is written before they are deleted."""
        self._join(self._small())

    def _small(self) -> list[Path]:
        return [part for part in self._parts() if part.stat().st_size < SMALL_BYTES]

    def _join(self, parts: Sequence[Path]) -> None:
        if len(parts) > 1:
            self._write(need("pyarrow").concat_tables([self._read(part, None) for part in parts]))
            for part in parts:
                with suppress(OSError):  # read twice, counted once
                    part.unlink()

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows; a task that was run several times has only its first result."""
        pa = need("pyarrow")
        wanted = None if columns is None else list(dict.fromkeys(["id", *columns]))
        tables = [self._read(part, wanted) for part in self._parts()]
        if not tables:
            return pa.Table.from_pylist([], schema=schema())
        whole = pa.concat_tables(tables)
        first: dict[str, int] = {}
        for number, id_ in enumerate(whole.column("id").to_pylist()):
            first.setdefault(id_, number)
        return whole if len(first) == len(whole) else whole.take(list(first.values()))

    def rows(self, columns: Sequence[str] | None = None) -> list[Row]:
        """Return all rows as dicts; each task occurs once."""
        found: list[Row] = self.table(columns).to_pylist()
        return found

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each finished task, by its id."""
        table = self.table(["id", "outcome"])
        return dict(zip(table.column("id").to_pylist(), table.column("outcome").to_pylist(), strict=True))

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"), key=lambda part: (part.stat().st_mtime_ns, part.name))

    def _read(self, part: Path, columns: list[str] | None) -> pa.Table:
        pa = need("pyarrow")
        try:
            return need("pyarrow.parquet").ParquetFile(part).read(columns)
        except (OSError, pa.ArrowException) as error:
            raise CampaignError(f"cannot read {part}: {error}") from None

    def _write(self, table: pa.Table) -> None:
        pa = need("pyarrow")
        name = f"part-{uuid.uuid4().hex}.parquet"
        draft = self.folder / f".{name}"
        try:
            with draft.open("wb") as file:
                need("pyarrow.parquet").write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self.folder / name)
            _sync(self.folder)
        except (OSError, pa.ArrowException) as error:
            with suppress(OSError):
                draft.unlink()
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise CampaignError(f"cannot write {self.folder}: {reason}") from None


def _sync(folder: Path) -> None:
    """Flush a folder, so that a rename in it is durable."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def count(outcomes: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each outcome, the most frequent first."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
