"""A report as one HTML file that needs nothing else: the page's own files, a plotting library, and the trace's columns.

The columns are packed behind a header in JSON, compressed, and written as text in base 64; the browser undoes both.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from understudy.core.rule import Rule, load_rules
from understudy.trace.code import Listing
from understudy.trace.reading import Record
from understudy.trace.timeline import Timeline

INTERFACES: Final = {
    "acceldev": ("understudy.device.acceldev", "acceldev"),
    "amdcl2": ("understudy.device.amdcl2", "amdcl2"),
    "fletcher": ("understudy.device.fletcher", "fletcher"),
    "gcn": ("", "waits"),
    "hsa": ("understudy.device.hsa", "hsa"),
    "refsi": ("understudy.device.refsi", "refsi"),
    "vfio-user": ("understudy.attach.vfio_user", "acceldev"),
}
"""Where the rules of an interface stand, and its page in the docs; those of GCN code stand in no such table."""
NO_CODE: Final = (
    "Kernels ran whose code is not shown: events do not tell of instructions. Reports that run --report and "
    "exec --report write have code and counts; in Python, HtmlTrace.code adds them."
)
CHECKS: Final = {
    **dict.fromkeys(("memory", "leaks", "races", "lanes"), "howto/checks"),
    **dict.fromkeys(("init", "fidelity"), "checks-of-values"),
    "waits": "waits",
    "sync": "sync",
}
"""The pages of checks in the docs."""
PARTS: Final = ("data.js", "timeline.js", "panels.js", "snapshots.js", "curves.js", "code.js", "main.js")
SCRIPTS: Final = ("uPlot.min.js", *PARTS)
MOST_SILENT: Final = 200
"""Names of functions that were not executed, of those that are told."""
STYLES: Final = ("uPlot.min.css", "page.css")


def write_page(
    events: Timeline | Iterable[Record],
    title: str,
    version: str,
    docs: str = "",
    code: Sequence[Listing] = (),
    notes: Sequence[str] = (),
) -> str:
    """The report of a trace and of the code that ran, written by this `version` of Understudy.

    `docs`: where links to pages of the docs lead; none are made without. `notes`: what is not shown of code, and why.
    """
    timeline = events if isinstance(events, Timeline) else Timeline(events)
    about, arrays = timeline.columns()
    about["title"] = title
    about["version"] = version
    about["rules"] = [_rule(name, *said, docs) for name, said in timeline.first_rules.items()]
    about["checkLinks"] = {
        what: link(docs, CHECKS.get(what.partition("/")[0], "")) for _, what, *_ in about["findings"]
    }
    about["code"] = [_listing(each) for each in sorted(code, key=_known)]
    about["notes"] = list(notes) or ([NO_CODE] if timeline.ran_kernels and not code else [])
    about["opcodes"] = _opcodes(code)
    about["opcodeLink"] = link(docs, "gcn-opcodes") if any(each.target.startswith("gfx") for each in code) else ""
    return page(about, arrays)


def page(about: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    """The file that shows these columns (`Timeline.columns`)."""
    parts = {
        "title": html.escape(about["title"]),
        "styles": "\n".join(_part(name) for name in STYLES),
        "licence": _part("uPlot.LICENSE.txt").strip(),
        "data": base64.b64encode(gzip.compress(pack(about, arrays), 5, mtime=0)).decode(),
        "scripts": "\n".join(_part(name) for name in SCRIPTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part("page.html"))


def pack(about: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """Length of the header (4 bytes, little-endian), header, and each array at a multiple of 8 bytes."""
    shapes, at = {}, 0
    for name, values in arrays.items():
        shapes[name] = [values.dtype.str[1:], at, len(values)]
        at += -(-values.nbytes // 8) * 8
    header = json.dumps({**about, "arrays": shapes}, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 4) % 8)
    body = b"".join(values.tobytes() + bytes(-values.nbytes % 8) for values in arrays.values())
    return len(header).to_bytes(4, "little") + header + body


def _part(name: str) -> str:
    return files("understudy.trace").joinpath("page", name).read_text(encoding="utf-8")


def find_rule(name: str) -> Rule | None:
    """The rule of that id, of whatever interface."""
    package, _ = INTERFACES.get(name.partition("/")[0], ("", ""))
    return load_rules(package).get(name) if package else None


def _rule(name: str, clause: str, count: int, docs: str) -> list[str | int]:
    _, document = INTERFACES.get(name.partition("/")[0], ("", ""))
    rule = find_rule(name)
    place = link(docs, document, name)
    if rule is None:
        return [name, clause, "", "", count, place]
    return [name, rule.clause, rule.text, rule.fidelity.value, count, place]


def link(docs: str, document: str, text: str = "") -> str:
    """Where a page of the docs is, and on it the first place of a text; "" where nobody says where the docs are.

    Docs on a forge, or in a folder, are Markdown; elsewhere they are the site.
    """
    if not docs or not document:
        return ""
    is_source = "/blob/" in docs or "/tree/" in docs or os.path.isfile(os.path.join(docs, "index.md"))
    fragment = "#:~:text=" + quote(text, safe="").replace("-", "%2D") if text else ""
    return f"{docs.rstrip('/')}/{document}.{'md' if is_source else 'html'}{fragment}"


def _known(listing: Listing) -> tuple[bool, bool]:
    """Programs come first of which there is source, then those of which functions have names."""
    return not listing.sources, all(each.name.startswith("0x") for each in listing.functions)


def _listing(listing: Listing) -> dict[str, Any]:
    """A program's code: rows are address, text, label, count, fidelity, bound, file and line."""
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
        "silent": list(listing.silent[:MOST_SILENT]),
        "silentCount": len(listing.silent),
        "files": [[file, list(listing.sources.get(file, ()))] for file in files],
    }


def _files(listing: Listing) -> list[str]:
    """The files that code comes from: users' before our headers, and those first that executed most."""
    counts: Counter[str] = Counter()
    for function in listing.functions:
        for row in function.rows:
            if row.place is not None:
                counts[row.place.file] += row.count
    ours = str(files("understudy").joinpath("data"))
    return sorted(counts, key=lambda file: (file.startswith(ours), -counts[file], file))


def _opcodes(code: Sequence[Listing]) -> list[list[str | int]]:
    """Operations that ran, with how true they are and how often."""
    found: Counter[tuple[str, str, str]] = Counter()
    for listing in code:
        found += listing.operations()
    return [[*operation, count] for operation, count in found.most_common()]
