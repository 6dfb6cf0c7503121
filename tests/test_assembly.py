"""LLVM assembly stands in emitters alone: what is always the same is a native function (`softcard.ir.native`)."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "softcard"
MOST_LINES = 70
"""In string literals of more than one line: what emitters write as one piece."""
INSTRUCTION = re.compile(
    r"^\s*(%\S+ = [a-z]+ |(define|declare|br|store|ret|switch|call) .*[%@]|ret void$)", re.MULTILINE
)


def assembly(source: str) -> int:
    """Lines of all literals of several lines that have an instruction or definition in them."""
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    lines = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inside:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
            if "\n" in text and INSTRUCTION.search(text):
                lines += sum(bool(line.strip()) for line in text.splitlines())
    return lines


def test_the_count() -> None:
    assert assembly('f"""\ndefine i64 @f(ptr %p) {{\n  %a = load i64, ptr %p\n  ret i64 {x}\n}}\n"""') == 4
    assert assembly('"""Words: %a = load\nmore."""\nprint("br i1 %c")') == 0


def test_assembly_stands_in_emitters_alone() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): assembly(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert sum(found.values()) < MOST_LINES, {name: count for name, count in found.items() if count}
