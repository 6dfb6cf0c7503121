"""Schemas of Fletcher: the generator and the run-time library agree about a valid one."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from understudy.image.arrow_schema import pyarrow
from understudy.testing.strategies.drawn import Drawn, drawn

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FIELDS: Final = 4
RESERVED: Final = frozenset({"values", "offsets", "validity", "lengths"})
"""What the generator's own names end with."""
NAMES: Final = st.text(string.ascii_lowercase, min_size=1, max_size=8).filter(lambda name: name not in RESERVED)


def fletcher_schemas(*, breaks: Collection[str] | None = None) -> SearchStrategy[Drawn[pa.Schema]]:
    """Arrow schemas with their ``fletcher_name`` and ``fletcher_mode``, as pyarrow's.

    Fields of a valid one are numbers, strings, binaries, structs of those, and lists of numbers. `breaks`: ids of rules
    of which one may be broken. Needs pyarrow.
    """
    arrow = pyarrow()
    fixed = [getattr(arrow, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    fixed += [arrow.float32(), arrow.float64(), arrow.date32()]
    numbers = st.sampled_from(fixed)
    kinds = _kinds(arrow, numbers, numbers | st.sampled_from([arrow.utf8(), arrow.binary()]))
    wrong: dict[str, Callable[[DrawFn], pa.Field]] = {
        "supported-types": lambda draw: arrow.field("wrong", arrow.binary(draw(st.integers(1, 16))), False),
        "cut-batch": lambda draw: arrow.field("wrong", draw(st.sampled_from(_unknown(arrow))), draw(st.booleans())),
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
    """Fields, and behind them the one that is wrong."""
    names = draw(st.lists(NAMES, min_size=wrong is None, max_size=MOST_FIELDS, unique=True))
    fields = [arrow.field(name, draw(kinds), draw(st.booleans())) for name in names]
    if wrong is not None:
        fields.append(wrong(draw))
    metadata = {"fletcher_name": draw(NAMES).capitalize(), "fletcher_mode": draw(st.sampled_from(["read", "write"]))}
    return arrow.schema(fields, metadata=metadata)


def _nameless(arrow: Any, kinds: SearchStrategy[Any], draw: DrawFn) -> pa.Schema:
    """A schema that does not say what it is called."""
    found = _schema(arrow, kinds, None, draw)
    return found.with_metadata({key: value for key, value in found.metadata.items() if key != b"fletcher_name"})


def _kinds(arrow: Any, numbers: SearchStrategy[Any], plain: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Types: plain ones, structs of them, lists of numbers."""
    structs = st.lists(plain, min_size=1, max_size=3).map(
        lambda members: arrow.struct([arrow.field(f"m{n}", kind, False) for n, kind in enumerate(members)])
    )
    return plain | structs | numbers.map(partial(_items, arrow))


def _items(arrow: Any, kind: Any) -> Any:
    """A list of these, none of which is null."""
    return arrow.list_(arrow.field("item", kind, False))


def _nested(arrow: Any, kind: Any) -> Any:
    return _items(arrow, _items(arrow, kind))


def _unknown(arrow: Any) -> list[Any]:
    """Types that neither the generator nor the run-time library knows."""
    return [arrow.bool_(), arrow.large_utf8(), arrow.large_binary(), arrow.duration("s")]
