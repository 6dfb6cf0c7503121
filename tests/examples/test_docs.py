"""The README and the pages of docs are programs too: their Python blocks and commands run, and print what they say."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from softcard.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUNS = re.compile(r"softcard (run|rv64|check|exec)\b")
ELSEWHERE = ("docs/howto/iree.md",)
"""The pages whose commands need a compiler that is installed apart; tests/host/hsa/test_iree.py runs them."""
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command, with its here-document, and what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        document = re.search(r"<<'(\w+)'", head)
        if document:
            body, _, rest = rest.partition(f"{document[1]}\n")
            head = f"{head}\n{body}{document[1]}\n"
        yield head, rest


class Shell:
    """Runs commands as a shell does, but `softcard` in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd = capfd
        self._monkeypatch = monkeypatch

    def said(self, command: str) -> str:
        """What is shown of a pipeline."""
        said, errors = "", ""
        for part in command.split(" | "):
            words = part.removesuffix(" 2>&1")
            if words.startswith("softcard "):
                self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
                main(shlex.split(words)[1:])
                said, reported = self._capfd.readouterr()
                if words == part:
                    errors += reported
                else:
                    said += reported
            else:
                said = subprocess.run(
                    ["bash", "-c", part], input=said, text=True, check=True, stdout=subprocess.PIPE
                ).stdout
        return said + errors


def normal(text: str) -> str:
    """Output of a run without what differs from machine to machine: addresses, times, what the compiler made."""
    text = re.sub(r"0x[0-9a-f]+", "0x_", text)
    text = re.sub(r"\n {6,}(?=\S)", " ", text)  # continued lines
    text = re.sub(r"(/s;|bytes of arrays)\n  (?=\S)", r"\1 ", text)  # their length depends on the time
    text = re.sub(r"(= note: in \S+ \(pc 0x_\)): .*", r"\1", text)
    text = re.sub(r"[\d,]+ ((wave )?instructions)", r"_ \1", text)
    return re.sub(r"in [\d.,]+ m?s, [\d.,]+( M)?/s", "in _ s, _/s", text)


@pytest.mark.filterwarnings("error::softcard.core.lint.LintWarning")
@pytest.mark.parametrize(
    "page",
    [each for each in PAGES if str(each.relative_to(ROOT)) not in ELSEWHERE],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    shell = Shell(capfd, monkeypatch)
    names: dict[str, object] = {"__name__": page.stem}
    printed = ""
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
            printed = capfd.readouterr().out
        elif language == "text":
            assert printed == text
        elif language == "console":
            for command, expected in commands(text):
                said = shell.said(command)
                assert said == expected or (RUNS.match(command) and normal(said) == normal(expected)), command


def test_files_to_be_copied_can_be_read() -> None:
    found = [(language, text) for page in PAGES for language, text in blocks(page) if language in ("json", "yaml")]
    assert {language for language, _ in found} == {"json", "yaml"}
    for language, text in found:
        assert json.loads(text) if language == "json" else yaml.safe_load(text)["jobs"]


def test_readme_and_tutorials_have_programs() -> None:
    counts = {page.name: sum(language == "python" for language, _ in blocks(page)) for page in PAGES}
    assert {name for name, count in counts.items() if count} >= {"README.md", "refsi.md", "engines.md"}


LINK = re.compile(r"\]\(([^)\s]+)\)")


def headings(page: Path) -> set[str]:
    """What links to a page's headings say behind the #, as GitHub and the site make it of their texts."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"\]\([^)]*\)", "", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        place = page.parent / name if name else page
        if "pictures" in place.parts and not place.parent.exists():  # they are not in the source distribution
            continue
        if not place.exists() or (heading and heading not in headings(place)):
            wrong.append(target)
    assert wrong == []
