"""Probes: the only way out of a device."""

from softcard.core.event import Event, Probes


def test_everyone_who_subscribed_hears_in_order():
    probes, seen = Probes(), []
    assert not probes.active
    probes.subscribe(lambda event: seen.append(("a", event)))
    probes.subscribe(lambda event: seen.append(("b", event)))
    probes.emit(Event(3))
    assert probes.active
    assert seen == [("a", Event(3)), ("b", Event(3))]


def test_cancelling_ends_the_subscription():
    probes, seen = Probes(), []
    cancel = probes.subscribe(seen.append)
    cancel()
    cancel()
    probes.emit(Event(1))
    assert seen == []
    assert not probes.active


def test_a_probe_may_cancel_itself_while_called():
    probes, seen = Probes(), []

    def once(event):
        seen.append(event)
        cancel()

    cancel = probes.subscribe(once)
    probes.emit(Event(1))
    probes.emit(Event(2))
    assert seen == [Event(1)]


def test_those_who_take_events_later_are_not_waited_for():
    probes, seen = Probes(), []
    assert not probes.wants_at_once(Event)
    probes.subscribe(seen.append, later=True)
    assert probes.wants(Event)
    assert not probes.wants_at_once(Event)
    cancel = probes.subscribe(seen.append)
    assert probes.wants_at_once(Event)
    cancel()
    assert not probes.wants_at_once(Event)
    probes.emit_all([Event(1), Event(2)])
    assert seen == [Event(1), Event(2)]
