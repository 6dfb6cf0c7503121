"""The language of docstrings, messages and docs: the field's words, and sentences that a newcomer understands.

Run as a script with files or folders of ``src``, it prints each violation as ``file:line: rule: text``.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/softcard"

OPENING = re.compile(r"(What|Whether|Where|Which|How|Whose|Why|Who|The same)\b")
"""Words with which no docstring opens: a function's is an imperative, a class's a noun phrase."""

PRIVATE = re.compile(
    r"\b(un)?marked\b|\bmarks?\b|\b(was|is|are|were|be) told\b|\btells?\b(?! you)|\blook(s|ed|ing)? at\b|\btwins?\b"
    r"|\bticks?\b|\bplanes?\b|\bparcels?\b|\bsights?\b|(?<!third )(?<!third-)\bpart(y|ies)\b|\bclash\w*"
    r"|\bin the way\b|\bjudges?\b|\bbehind\b|\b(no|some|every)body\b|\bwhoever\b|\b(is|are|was|were) none\b"
    r"|(?<!there )\b(is|are|was|were) no\b(?! (longer|more))|\bsays? so\b|\bstretch\w*|\bsettle\w*|\bhints?\b"
    r"|\bbeside\b|\blent\b|\bnap\b|\bturns? of\b|\bapart\b",
    re.IGNORECASE,
)
"""Private words, and constructions that cost a reader: negated nouns ("is no address"), sentences without a subject."""

WORDS = re.compile(r"[a-z]{2} |(^| )[a-z]{2,} ")
"""A string of several words: a message, a help text or a part of one."""

BEHIND = re.compile(r"\bbehind\b", re.IGNORECASE)

EXAMPLES = {
    "Return the number of lanes.": False,
    "What a kernel may read.": True,
    "address 16 is no multiple of 4": True,
    "there is no kernel of this name": False,
    "0 bytes behind the end of argument 0": True,
}


class Violation(NamedTuple):
    """One place that breaks a rule of the language."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.rule}: {' '.join(self.text.split())[:100]}"


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield docstrings, those of attributes too."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as constant):
                    yield constant


def _messages(tree: ast.Module, docstrings: set[int]) -> Iterator[ast.Constant]:
    """Yield strings of several words, which are messages, help texts or parts of them."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) if id(node) not in docstrings and WORDS.search(text):
                yield node


def violations(path: Path) -> Iterator[Violation]:
    """Yield what breaks a rule in one source file."""
    text = path.read_text()
    tree = ast.parse(text)
    docstrings = list(_docstrings(tree))
    for node in docstrings:
        if OPENING.match(str(node.value).lstrip()):
            yield Violation(path, node.lineno, "opening", str(node.value))
    for node in _messages(tree, {id(node) for node in docstrings}):
        if PRIVATE.search(str(node.value)):
            yield Violation(path, node.lineno, "message", str(node.value))
    lines = enumerate(text.splitlines(), 1)
    yield from (Violation(path, number, "behind", line) for number, line in lines if BEHIND.search(line))


@pytest.mark.parametrize(("text", "is_wrong"), EXAMPLES.items())
def test_the_rules(text: str, is_wrong: bool) -> None:
    assert bool(OPENING.match(text) or PRIVATE.search(text)) is is_wrong


@pytest.mark.parametrize("folder", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_docstrings_and_messages_use_the_language_of_the_field(folder: str) -> None:
    paths = sorted((SOURCE / folder).rglob("*.py"))
    assert not [str(each) for path in paths for each in violations(path)]


def test_modules_at_the_top_do_too() -> None:
    assert not [str(each) for path in sorted(SOURCE.glob("*.py")) for each in violations(path)]


if __name__ == "__main__":
    for name in sys.argv[1:] or [str(SOURCE)]:
        argument = Path(name).resolve()
        for file in sorted(argument.rglob("*.py")) if argument.is_dir() else [argument]:
            for each in violations(file):
                print(each)
