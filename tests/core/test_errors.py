"""The error tree and the path of places."""

import pytest

from softcard.core import errors
from softcard.core.errors import AccessFault, GuestFault, Place, RuleError, SoftcardError, WireError
from softcard.core.rule import Rule

RULE = Rule("acceldev/feed-error", "Device Commands", "Submitting when the queue is full raises FEED_ERROR.")


def test_a_message_reads_from_the_inside_out():
    error = RuleError("queue full", rule=RULE)
    error.at("byte", 16, "word 4").at("command", 5, "RUN").at("context", "7")
    assert str(error) == (
        "queue full, at byte 0x10 (word 4), at command 5 (RUN), at context 7, [acceldev/feed-error: Device Commands]"
    )
    assert error.path == (Place("byte", "0x10", "word 4"), Place("command", "5", "RUN"), Place("context", "7"))
    assert (error.message, error.rule) == ("queue full", RULE)


@pytest.mark.parametrize("kind", sorted(errors.HEX_PLACES))
def test_places_that_count_bytes_are_written_in_hex(kind):
    assert str(WireError("x").at(kind, 20)) == f"x, at {kind} 0x14"


def test_adding_a_place_keeps_the_error():
    error = WireError("x")
    assert error.at("word", 1) is error


def test_the_tree():
    assert issubclass(AccessFault, GuestFault)
    for name in ("WireError", "RuleError", "GuestFault", "BeyondModel", "ModelBug"):
        assert getattr(errors, name).__mro__[1] is SoftcardError


def test_an_access_fault_carries_its_address():
    fault = AccessFault("no memory there", address=0x1000, access="load", rule=RULE)
    assert (fault.address, fault.access, fault.rule) == (0x1000, "load", RULE)


def test_of_much_output_a_note_shows_the_end():
    error = errors.with_console(GuestFault("x"), b"ab" * errors.MAX_OUTPUT_SHOWN)
    assert errors.with_console(error, b"other") is error
    assert len(error.console) == 2 * errors.MAX_OUTPUT_SHOWN
    assert error.__notes__ == [
        f"printed before the error (the last 4000 characters):\n  {'ab' * (errors.MAX_OUTPUT_SHOWN // 2)}"
    ]
    assert not hasattr(errors.with_console(GuestFault("x"), b""), "__notes__")
