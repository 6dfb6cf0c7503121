"""Generator of the API reference: signatures and docstrings of public names as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any


def reference(name: str, thing: Any) -> str:
    """Return the reference, as Markdown, of a public class, function or module with all its public members.

    Inherited members are included.
    """
    if inspect.ismodule(thing):
        return "\n".join([f"### `softcard.{name}`", "", *_text(thing), *_names(thing)]) + "\n"
    lines = [f"### `{name}`", ""]
    if not inspect.isclass(thing):
        return "\n".join([*lines, f"`{name}{signature(thing)}`", "", *_text(thing)])
    bases = [base.__name__ for base in thing.__mro__[1:] if base.__module__.partition(".")[0] == "softcard"]
    if issubclass(thing, BaseException):
        lines += [f"A kind of `{bases[0] if bases else thing.__mro__[1].__name__}`.", ""]
    lines += _text(thing)
    lines += [f"- {line}" for line in _members(name, thing)]
    return "\n".join(lines).rstrip() + "\n"


def signature(function: Any) -> str:
    """Return the signature of a function as text: parameters, defaults and result.

    Annotations appear as they are written in the source.
    """
    found = inspect.signature(function)
    parts = []
    by_position = True
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and by_position:
            parts.append("*")
        by_position = by_position and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = "*" if kind is parameter.VAR_POSITIONAL else "**" if kind is parameter.VAR_KEYWORD else ""
        text = f"{stars}{parameter.name}"
        if parameter.annotation is not parameter.empty:
            text += f": {parameter.annotation}"
        if parameter.default is not parameter.empty:
            space = " " if parameter.annotation is not parameter.empty else ""
            text += f"{space}={space}{_value(parameter.default)}"
        parts.append(text)
    result = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    return f"({', '.join(parts)}){result}"


def _value(value: Any) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    return value.__name__ if inspect.isclass(value) else repr(value)


def _names(module: Any) -> Iterator[str]:
    """Yield a Markdown line for each name in the `__all__` of a module."""
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            yield f"- `{name}{signature(thing)}`: {_first(thing)}"
        elif inspect.isclass(thing) or inspect.ismodule(thing):
            yield f"- `{name}`: {_first(thing)}"
        else:
            yield f"- `{name}`: a constant"


def _members(name: str, cls: type) -> Iterator[str]:
    """Yield a Markdown line for each public method and property of a class, in the order of their definitions.

    `name` is the name of the class, which precedes those of class methods and static methods."""
    seen = set()
    for owner in cls.__mro__:
        if owner.__module__.partition(".")[0] != "softcard":
            continue
        for member, value in vars(owner).items():
            if member.startswith("_") or member in seen:
                continue
            seen.add(member)
            function = getattr(value, "__func__", value)
            if isinstance(value, property):
                yield f"`.{member}`: {_first(value)}"
            elif inspect.isfunction(function):
                static = name if isinstance(value, classmethod | staticmethod) else ""
                yield f"`{static}.{member}{signature(function)}`: {_first(function)}"


def _text(thing: Any) -> list[str]:
    """Return the docstring as lines of Markdown; a paragraph that begins with ``>>>`` becomes a code block."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += ["```pycon", paragraph, "```", ""] if paragraph.startswith(">>>") else [_code(paragraph), ""]
    return lines


def _first(thing: Any) -> str:
    """Return the first paragraph of a docstring as one line."""
    return _code(" ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split()))


def _code(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", text)
