"""Writer of a report as one self-contained HTML file.

The file contains the page's scripts and styles, a plotting library, and the trace as columns (see `Timeline.columns`).
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
from softcard.core.rule import Rule, load_rules
from softcard.trace.code import Listing
from softcard.trace.reading import Record
from softcard.trace.timeline import Timeline

PACKAGES: Final = {
    **{name: f"softcard.device.{name}" for name in ("acceldev", "amdcl2", "fletcher", "hsa", "refsi")},
    "vfio-user": "softcard.attach.vfio_user",
}
"""The Python package with the rules of each interface; rules of GCN code have none."""
NO_CODE: Final = (
    "Kernels ran whose code is not shown: the events of a trace do not include code. Reports of `run --report` and "
    "`exec --report` show code (with counts, unless a check was on); in Python, add it with HtmlTrace.code."
)
PARTS: Final = ("data.js", "timeline.js", "panels.js", "snapshots.js", "curves.js", "code.js", "main.js")
SCRIPTS: Final = ("uPlot.min.js", *PARTS)
MOST_SILENT: Final = 200
"""The maximum number of names of unexecuted functions that are listed."""
STYLES: Final = ("uPlot.min.css", "page.css")


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
    about, arrays = timeline.columns()
    about["title"] = title
    about["version"] = version
    about["rules"] = [_rule(name, *said, docs) for name, said in timeline.first_rules.items()]
    found = {what for _, what, *_ in about["findings"]}
    about["checkLinks"] = {what: link(docs, page_of(what), what.rpartition("/")[2]) for what in sorted(found)}
    about["code"] = [_listing(each) for each in sorted(code, key=_sort_key)]
    about["notes"] = list(notes) or ([NO_CODE] if timeline.ran_kernels and not code else [])
    about["opcodes"] = _opcodes(code)
    about["opcodeLink"] = link(docs, "gcn-opcodes") if any(each.target.startswith("gfx") for each in code) else ""
    return page(about, arrays)


def page(about: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    """Return the HTML file for a report with the header `about` and the columns `arrays` (see `Timeline.columns`)."""
    parts = {
        "title": html.escape(about["title"]),
        "styles": "\n".join(_part(name) for name in STYLES),
        "licence": _part("uPlot.LICENSE.txt").strip(),
        "data": base64.b64encode(gzip.compress(pack(about, arrays), 5, mtime=0)).decode(),
        "scripts": "\n".join(_part(name) for name in SCRIPTS),
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
    return not listing.sources, all(each.name.startswith("0x") for each in listing.functions)


def _listing(listing: Listing) -> dict[str, Any]:
    """Return a program's listing as data for the page.

    Each row has address, text, label, count, accuracy, error bound, file and line.
    """
    files = {file: number for number, file in enumerate(_files(listing))}
    functions = [
        [
            function.name,
            [
                [
                    *(f"{row.pc:#x}", row.text, row.label, row.count, row.fidelity if row.operation else "", row.bound),
                    *((-1, 0) if row.place is None else (files[row.place.file], row.place.line)),
                ]
                for row in function.rows
            ],
        ]
        for function in listing.functions
    ]
    return {
        "name": listing.name,
        "target": listing.target,
        "functions": functions,
        "counted": listing.is_counted,
        "silent": list(listing.silent[:MOST_SILENT]),
        "silentCount": len(listing.silent),
        "files": [[file, list(listing.sources.get(file, ()))] for file in files],
    }


def _files(listing: Listing) -> list[str]:
    """Return the source files of a listing: those of the user before Softcard's headers, the most executed first."""
    counts: Counter[str] = Counter()
    for function in listing.functions:
        for row in function.rows:
            if row.place is not None:
                counts[row.place.file] += row.count
    ours = str(files("softcard").joinpath("data"))
    return sorted(counts, key=lambda file: (file.startswith(ours), -counts[file], file))


def _opcodes(code: Sequence[Listing]) -> list[list[str | int]]:
    """Return the executed operations as lists of name, accuracy, error bound and number of executions."""
    found: Counter[tuple[str, str, str]] = Counter()
    for listing in code:
        found += listing.operations()
    return [[*operation, count] for operation, count in found.most_common()]
