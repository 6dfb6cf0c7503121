"""Text of files as terminals may see it."""

from __future__ import annotations

import pytest

from softcard.core.display import encodable, printable
from softcard.core.errors import WireError
from softcard.core.findings import Finding
from softcard.core.lint import Lint


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc é \U0001f600", "a\tb\nc é \U0001f600"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\r\x08\x7f\x9b31m", r"\x0d\x08\x7f\x9b31m"),
        ("a\u202eb\u2066\u2028", r"a\u202eb\u2066\u2028"),
        (b"\x9b31m\xff".decode("utf-8", "surrogateescape"), "\\x9b31m\udcff"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_what_utf8_and_xml_cannot_hold_is_escaped() -> None:
    assert encodable("\x1ba\n\udcffb\ud800\ufffe") == "\\x1ba\n\\xffb\\ud800\\ufffe"


def test_errors_and_lints_are_printable_and_their_messages_exact() -> None:
    error = WireError("no kernel \x1b[2J").at("file", "a\x07")
    assert str(error) == r"no kernel \x1b[2J, at file a\x07"
    assert error.message == "no kernel \x1b[2J"
    assert str(Lint(0, "check", "name \x1b")) == r"check: name \x1b"
    assert "\x1b" not in str(Finding("check", "name", "message \x1b"))
