"""A report as one HTML file that needs nothing else: the page's own files, a plotting library, and the trace's columns.

The columns are packed behind a header in JSON, compressed, and written as text in base 64; the browser undoes both.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Final

import numpy as np

from understudy.core.rule import Rule, load_rules
from understudy.trace.reading import Record
from understudy.trace.timeline import Timeline

INTERFACES: Final = {
    "acceldev": ("understudy.device.acceldev", "acceldev.md"),
    "amdcl2": ("understudy.device.amdcl2", "amdcl2.md"),
    "fletcher": ("understudy.device.fletcher", "fletcher.md"),
    "hsa": ("understudy.device.hsa", "hsa.md"),
    "refsi": ("understudy.device.refsi", "refsi.md"),
    "vfio-user": ("understudy.attach.vfio_user", "acceldev.md"),
}
"""Where the rules of an interface stand, and its page in the docs."""
SCRIPTS: Final = ("uPlot.min.js", "data.js", "timeline.js", "panels.js", "main.js")
STYLES: Final = ("uPlot.min.css", "page.css")


def write_page(records: Iterable[Record], title: str, version: str, docs: str = "") -> str:
    """The report of a trace, written by this `version` of Understudy.

    `docs`: where links to pages of the docs lead; none are made without.
    """
    about, arrays = (timeline := Timeline(records)).columns()
    about["title"] = title
    about["version"] = version
    about["rules"] = [_rule(name, *said, docs) for name, said in timeline.first_rules.items()]
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
    link = f"{docs.rstrip('/')}/{document}" if docs and document else ""
    if rule is None:
        return [name, clause, "", "", count, link]
    return [name, rule.clause, rule.text, rule.fidelity.value, count, link]
