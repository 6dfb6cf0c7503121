"""A comparison as text, as JUnit XML, and as a page."""

from __future__ import annotations

from html import escape
from typing import Final
from xml.etree import ElementTree

from understudy.campaign.compare import Comparison, Difference, Kind

MOST_SHOWN: Final = 20
"""Differences of a kind that text shows."""
BAD: Final = (Kind.NEW, Kind.OTHER, Kind.CHANGED)
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
td { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
h2.bad { color: #c33; }
"""


def name_of(difference: Difference, comparison: Comparison) -> str:
    """What tells its task from others."""
    words = (f"{name}={difference.row[name]}" for name in comparison.keys if difference.row[name] not in ("", None))
    return " ".join(words)


def as_text(comparison: Comparison) -> str:
    """Counts, and the first differences of each kind."""
    counts = comparison.counts()
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no difference"
    lines = [f"{comparison.names[0]} and {comparison.names[1]}: {comparison.common} tasks of both, {listed}"]
    for kind, count in counts.items():
        lines += ["", f"{kind}:"]
        for number, each in enumerate(comparison.of(kind)):
            if number == MOST_SHOWN:
                lines.append(f"  ... and {count - MOST_SHOWN} more")
                break
            lines.append(f"  {each.row['id']}  {name_of(each, comparison)}: {each.told()}")
    return "\n".join(lines)


def as_junit(comparison: Comparison) -> str:
    """JUnit XML, as build servers read it: what is worse has failed; all else that differs has passed."""
    failed = sum(each.kind in BAD for each in comparison.differences)
    same = comparison.common - sum(
        each.before is not None and each.after is not None for each in comparison.differences
    )
    suite = ElementTree.Element(
        "testsuite", name=" and ".join(comparison.names), tests=str(1 + len(comparison.differences)),
        failures=str(failed), errors="0",
    )  # fmt: skip
    ElementTree.SubElement(suite, "testcase", classname="tasks", name=f"{same} without a difference", time="0")
    for each in comparison.differences:
        case = ElementTree.SubElement(
            suite, "testcase", classname=each.row["program"], name=name_of(each, comparison),
            time=f"{each.row['seconds']:.6f}",
        )  # fmt: skip
        if each.kind in BAD:
            failure = ElementTree.SubElement(case, "failure", type=str(each.kind), message=_clean(each.told()))
            failure.text = _clean(f"task {each.row['id']}\n{each.row['message']}")
        else:
            ElementTree.SubElement(case, "system-out").text = _clean(f"{each.kind}: {each.told()}")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, "unicode", xml_declaration=True) + "\n"


def _clean(text: str) -> str:
    """Without what XML has no way to write."""
    return "".join(each for each in text if each in "\t\n" or (each >= " " and not "\ud800" <= each <= "\udfff"))


def as_html(comparison: Comparison) -> str:
    """One file that needs no network."""
    title = escape(" and ".join(comparison.names))
    parts = [f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"]
    parts.append(f"<p>{comparison.common} tasks of both.</p>")
    for kind, count in comparison.counts().items():
        bad = " class=bad" if kind in BAD else ""
        head = "".join(f"<th>{escape(name)}</th>" for name in ("task", *comparison.keys, "what"))
        parts.append(f"<h2{bad}>{escape(str(kind))}: {count}</h2><table><tr>{head}</tr>")
        for each in comparison.of(kind):
            cells = [each.row["id"], *(str(each.row[name]) for name in comparison.keys), each.told()]
            parts.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
        parts.append("</table>")
    return "\n".join(parts) + "\n"
