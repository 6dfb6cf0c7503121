"""Writer of a report as one self-contained HTML file.

The file contains the page's scripts and styles, and the trace as columns (see `Timeline.columns`).
The columns follow a header in JSON; they are compressed and encoded in base 64, which the browser decodes.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, Final

import numpy as np

from softcard.core.diagnostics import link, page_of
from softcard.core.display import demangled, shown_path
from softcard.core.rule import Rule, load_rules
from softcard.device.kfd.loaded_code import RUNTIME_KERNELS
from softcard.trace.code import COMMANDS, Function, Listing
from softcard.trace.timeline import Timeline
from softcard.trace.values import Record

PACKAGES: Final = {
    **{name: f"softcard.device.{name}" for name in ("acceldev", "amdcl2", "fletcher", "hsa", "refsi")},
    "vfio-user": "softcard.attach.vfio_user",
}
"""The Python package with the rules of each interface; rules of GCN code have none."""
NO_CODE: Final = (
    "Kernels ran whose code is not shown: the events of a trace do not include code. `softcard report TRACE --code "
    "FILE` takes it from the program. Reports of `run --report` and `exec --report` show code (with counts, unless a "
    "check was on); in Python, follow the device, not its probes."
)
PARTS: Final = (
    "data.js", "timeline.js", "panels.js", "findings.js", "snapshots.js", "strips.js", "code.js", "main.js",
)  # fmt: skip
OURS: Final = str(files("softcard").joinpath("data"))
"""The folder of the sources that Softcard adds to kernels: built-in functions, and RefSi's run-time."""
NAMELESS: Final = "0x"
"""The start of the names of code without a symbol, which are addresses."""
MOST_SILENT: Final = 200
"""The maximum number of names of unexecuted functions that are listed."""
STYLES: Final = ("page.css",)


def write_page(
    events: Timeline | Iterable[Record],
    title: str,
    version: str,
    docs: str = "",
    code: Sequence[Listing] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return the HTML report of a trace and of the executed code; `version` is the version of Softcard.

    `docs` is the address of the documentation, for links into it; "" for no links. `notes` are texts about code that is
    not shown, with the reasons.
    """
    timeline = events if isinstance(events, Timeline) else Timeline(events)
    code = [*code, *timeline.commands.listings()]
    about, arrays = timeline.columns(
        {
            each.address: demangled(each.name)
            for listing in code
            for each in listing.functions
            if not each.name.startswith(NAMELESS)
        }
    )
    about["title"] = title
    about["version"] = version
    about["rules"] = [_rule(name, *said, docs) for name, said in timeline.first_rules.items()]
    found = {each["what"] for each in about["findings"]}
    about["checkLinks"] = {what: link(docs, page_of(what), what.rpartition("/")[2]) for what in sorted(found)}
    has_names = any(not each.name.startswith(NAMELESS) for listing in code for each in listing.functions)
    about["code"] = [_listing(each, has_names) for each in sorted(code, key=_sort_key)]
    about["notes"] = list(notes) or ([NO_CODE] if timeline.ran_kernels and not code else [])
    about["opcodes"] = _opcodes(code)
    about["opcodeLink"] = link(docs, "gcn-opcodes") if any(each.target.startswith("gfx") for each in code) else ""
    return page(about, arrays)


def page(about: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    """Return the HTML file for a report with the header `about` and the columns `arrays` (see `Timeline.columns`)."""
    parts = {
        "title": html.escape(about["title"]),
        "styles": "\n".join(_part(name) for name in STYLES),
        "data": base64.b64encode(gzip.compress(pack(about, arrays), 5, mtime=0)).decode(),
        "scripts": "\n".join(_part(name) for name in PARTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part("page.html"))


def pack(about: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """Return the header `about` and the columns `arrays` packed into bytes.

    The bytes are the length of the header in JSON (4 bytes, little-endian), the header, and each array at a
    multiple of 8 bytes."""
    shapes, at = {}, 0
    for name, values in arrays.items():
        shapes[name] = [values.dtype.str[1:], at, len(values)]
        at += -(-values.nbytes // 8) * 8
    header = json.dumps({**about, "arrays": shapes}, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 4) % 8)
    body = b"".join(values.tobytes() + bytes(-values.nbytes % 8) for values in arrays.values())
    return len(header).to_bytes(4, "little") + header + body


def _part(name: str) -> str:
    return files("softcard.trace").joinpath("page", name).read_text(encoding="utf-8")


def find_rule(name: str) -> Rule | None:
    """Return the rule of any interface with the id `name`; None for an unknown id."""
    package = PACKAGES.get(name.partition("/")[0])
    return load_rules(package).get(name) if package else None


def _rule(name: str, clause: str, count: int, docs: str) -> list[str | int]:
    rule = find_rule(name)
    place = link(docs, page_of(name), name)
    if rule is None:
        return [name, clause, "", "", count, place]
    return [name, rule.clause, rule.text, rule.fidelity.value, count, place]


def _sort_key(listing: Listing) -> tuple[bool, bool]:
    """Return a key that sorts programs with sources first, then programs whose functions have names."""
    return not listing.sources, all(each.name.startswith(NAMELESS) for each in listing.functions)


def _listing(listing: Listing, has_names: bool) -> dict[str, Any]:
    """Return a program's listing as data for the page.

    Each function has its name, its rows, and True if it is code of a run-time library. Each row has address, text,
    label, count, accuracy, error bound, file and line.
    """
    files = {file: number for number, file in enumerate(_files(listing))}
    functions = [
        [
            demangled(function.name),
            [
                [
                    *(
                        row.address or f"{row.pc:#x}",
                        demangled(row.text),
                        demangled(row.label),
                        row.count,
                        row.fidelity if row.operation else "",
                        row.bound,
                    ),
                    *((-1, 0) if row.place is None else (files[row.place.file], row.place.line)),
                ]
                for row in function.rows
            ],
            _is_of_library(function, has_names),
        ]
        for function in listing.functions
    ]
    return {
        "name": listing.name,
        "target": listing.target,
        "functions": functions,
        "counted": listing.is_counted,
        "isSource": listing.is_source,
        "silent": [demangled(each) for each in listing.silent[:MOST_SILENT]],
        "silentCount": len(listing.silent),
        "files": [[shown_path(file), list(listing.sources.get(file, ()))] for file in files],
    }


def _is_of_library(function: Function, has_names: bool) -> bool:
    """Return True if a function is a kernel of a run-time library, or all of its source lines are Softcard's own.

    Code without a name belongs to the run-time library if the report has other code with names (`has_names`).
    """
    if function.name.startswith(RUNTIME_KERNELS) or (has_names and function.name.startswith(NAMELESS)):
        return True
    places = [row.place.file for row in function.rows if row.place is not None]
    return bool(places) and all(file.startswith(OURS) for file in places)


def _files(listing: Listing) -> list[str]:
    """Return the source files of a listing: those of the user before Softcard's headers, the most executed first."""
    counts: Counter[str] = Counter()
    for function in listing.functions:
        for row in function.rows:
            if row.place is not None:
                counts[row.place.file] += row.count
    return sorted(counts, key=lambda file: (file.startswith(OURS), -counts[file], file))


def _opcodes(code: Sequence[Listing]) -> list[list[str | int]]:
    """Return the executed operations as lists of name, accuracy, error bound and number of executions."""
    found: Counter[tuple[str, str, str]] = Counter()
    for listing in code:
        if listing.target != COMMANDS:
            found += listing.operations()
    return [[*operation, count] for operation, count in found.most_common()]
