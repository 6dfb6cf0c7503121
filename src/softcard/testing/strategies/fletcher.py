"""Strategies for Fletcher schemas. Fletcher's generator and its run-time library both accept the valid ones."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.image.arrow_schema import pyarrow
from softcard.testing.strategies.drawn import Drawn, drawn

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FIELDS: Final = 4
RESERVED: Final = frozenset({"values", "offsets", "validity", "lengths"})
"""The words that must not be field names, since Fletcher's generator appends them to names."""
NAMES: Final = st.text(string.ascii_lowercase, min_size=1, max_size=8).filter(lambda name: name not in RESERVED)


def fletcher_schemas(*, breaks: Collection[str] | None = None) -> SearchStrategy[Drawn[pa.Schema]]:
    """Draw pyarrow schemas with the metadata ``fletcher_name`` and ``fletcher_mode``.

    Fields of a valid schema are numbers, strings, binaries, structs of those, and lists of numbers. `breaks` lists the
    ids of the rules that may be broken, one at a time. The function needs pyarrow.
    """
    arrow = pyarrow()
    fixed = [getattr(arrow, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    fixed += [arrow.float32(), arrow.float64(), arrow.date32()]
    numbers = st.sampled_from(fixed)
    kinds = _kinds(arrow, numbers, numbers | st.sampled_from([arrow.utf8(), arrow.binary()]))
    wrong: dict[str, Callable[[DrawFn], pa.Field]] = {
        "supported-types": lambda draw: arrow.field("wrong", arrow.binary(draw(st.integers(1, 16))), False),
        "truncated-batch": lambda draw: arrow.field(
            "wrong", draw(st.sampled_from(_unknown(arrow))), draw(st.booleans())
        ),
        "same-implementation": lambda draw: arrow.field(
            "wrong", arrow.struct([arrow.field("member", draw(numbers), True)]), False
        ),
        "unique-names": lambda draw: arrow.field("wrong", _nested(arrow, draw(numbers)), False),
        "profiled-fields": lambda draw: arrow.field(
            "wrong", draw(st.sampled_from([arrow.utf8(), _items(arrow, fixed[0])])), False, {"fletcher_profile": "true"}
        ),
    }
    mistakes = {f"fletcher/{name}": partial(_schema, arrow, kinds, one) for name, one in wrong.items()}
    mistakes["fletcher/schema-name"] = partial(_nameless, arrow, kinds)
    return drawn(partial(_schema, arrow, kinds, None), mistakes, breaks)


def _schema(arrow: Any, kinds: SearchStrategy[Any], wrong: Callable[[DrawFn], Any] | None, draw: DrawFn) -> pa.Schema:
    """Draw a schema with valid fields, whose types `kinds` draws.

    If `wrong` is given, an invalid field drawn from it follows."""
    names = draw(st.lists(NAMES, min_size=wrong is None, max_size=MOST_FIELDS, unique=True))
    fields = [arrow.field(name, draw(kinds), draw(st.booleans())) for name in names]
    if wrong is not None:
        fields.append(wrong(draw))
    metadata = {"fletcher_name": draw(NAMES).capitalize(), "fletcher_mode": draw(st.sampled_from(["read", "write"]))}
    return arrow.schema(fields, metadata=metadata)


def _nameless(arrow: Any, kinds: SearchStrategy[Any], draw: DrawFn) -> pa.Schema:
    """Draw a schema without the metadata ``fletcher_name``."""
    found = _schema(arrow, kinds, None, draw)
    return found.with_metadata({key: value for key, value in found.metadata.items() if key != b"fletcher_name"})


def _kinds(arrow: Any, numbers: SearchStrategy[Any], plain: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Draw types of fields: those that `plain` draws, structs of them, and lists of what `numbers` draws."""
    structs = st.lists(plain, min_size=1, max_size=3).map(
        lambda members: arrow.struct([arrow.field(f"m{n}", kind, False) for n, kind in enumerate(members)])
    )
    return plain | structs | numbers.map(partial(_items, arrow))


def _items(arrow: Any, kind: Any) -> Any:
    """Return the Arrow field for items of a list; they have the type `kind` and cannot be null."""
    return arrow.list_(arrow.field("item", kind, False))


def _nested(arrow: Any, kind: Any) -> Any:
    return _items(arrow, _items(arrow, kind))


def _unknown(arrow: Any) -> list[Any]:
    """Return Arrow types that neither Fletcher's generator nor its run-time library supports."""
    return [arrow.bool_(), arrow.large_utf8(), arrow.large_binary(), arrow.duration("s")]
