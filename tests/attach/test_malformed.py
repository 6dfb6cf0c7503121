"""One refusal per mistake: the reply's errno, what the error says and where; the session goes on or ends cleanly."""

import errno
import gc
import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.attach.vfio_user import Capabilities, Disconnected, ServerError, Settings, events
from softcard.attach.vfio_user.client import Memory
from softcard.attach.vfio_user.messages import Command, HeaderFlags
from tests.attach.rig import SCRATCH, plugged, rig

ALIVE = 0xFFFF_FFFF


def refused(command, payload, number, message, *, fds=(), settings=None, capabilities=None):
    """The server answers with `number`, says `message`, and serves on."""
    with plugged(settings) as (made, client):
        with pytest.raises(ServerError) as caught:
            client.call(command, payload, fds)
        assert os.strerror(caught.value.errno) == os.strerror(number)
        assert len(made.refusals) == 1
        assert message in made.refusals[0]
        assert (
            f"at message 3 ({command.name if isinstance(command, Command) else f'command {command}'}, id 0x3)"
            in (made.refusals[0])
        )
        assert client.read_u32(SCRATCH) == ALIVE


def words(*values):
    return struct.pack(f"<{len(values)}I", *values)


def dma_map(flags=3, offset=0, address=0x1000, size=0x1000, argsz=32):
    return struct.pack("<IIQQQ", argsz, flags, offset, address, size)


@pytest.mark.parametrize(
    ("command", "payload", "number", "message"),
    [
        (0, b"", errno.ENOTSUP, "unknown command 0, at byte 0x2 (of the header)"),
        (14, b"", errno.ENOTSUP, "unknown command 14"),
        (0xFFFF, b"", errno.ENOTSUP, "unknown command 65535"),
        (Command.DMA_READ, bytes(16), errno.ENOTSUP, "DMA_READ may only be sent by the server, not by the client"),
        (Command.DMA_WRITE, bytes(16), errno.ENOTSUP, "DMA_WRITE may only be sent by the server, not by the client"),
        (Command.VERSION, bytes(4), errno.EINVAL, "VERSION must be sent once: the version was negotiated already"),
        # short and long
        (
            Command.DMA_MAP,
            bytes(31),
            errno.EINVAL,
            "the payload (DmaMap) must have 32 bytes, not 31, at byte 0x1f (of the payload)",
        ),
        (
            Command.DMA_MAP,
            bytes(33),
            errno.EINVAL,
            "the payload (DmaMap) must have 32 bytes, not 33, at byte 0x20 (of the payload)",
        ),
        (Command.DMA_UNMAP, b"", errno.EINVAL, "the payload (DmaUnmap) must have 24 bytes, not 0"),
        (Command.DEVICE_GET_INFO, bytes(12), errno.EINVAL, "the payload (DeviceInfo) must have 16 bytes, not 12"),
        (
            Command.DEVICE_GET_REGION_INFO,
            bytes(16),
            errno.EINVAL,
            "the payload (RegionInfo) must have 32 bytes, not 16",
        ),
        (Command.DEVICE_GET_IRQ_INFO, bytes(20), errno.EINVAL, "the payload (IrqInfo) must have 16 bytes, not 20"),
        (Command.DEVICE_SET_IRQS, bytes(19), errno.EINVAL, "IrqSet needs 20 bytes, but the data has 19 left"),
        (
            Command.REGION_READ,
            bytes(15),
            errno.EINVAL,
            "the payload of REGION_READ must have 16 bytes, not 15, at byte 0xf",
        ),
        (Command.REGION_READ, bytes(17), errno.EINVAL, "the payload of REGION_READ must have 16 bytes, not 17"),
        (
            Command.REGION_WRITE,
            bytes(15),
            errno.EINVAL,
            "the payload of REGION_WRITE must have 16 bytes and data, not 15",
        ),
        (Command.DEVICE_RESET, bytes(1), errno.EINVAL, "DEVICE_RESET must have no payload, not 1 bytes"),
        (Command.DEVICE_FEATURE, bytes(7), errno.EINVAL, "DeviceFeature needs 8 bytes"),
        # argsz and fields that must be zero
        (Command.DEVICE_GET_INFO, words(15, 0, 0, 0), errno.EINVAL, "argsz must be 16 or more, not 15, at byte 0x0"),
        (Command.DEVICE_GET_INFO, words(16, 1, 0, 0), errno.EINVAL, "flags of a request must be 0, not 0x1"),
        (Command.DEVICE_GET_INFO, words(16, 0, 0, 7), errno.EINVAL, "num_irqs of a request must be 0, not 0x7"),
        (Command.DMA_MAP, dma_map(argsz=40), errno.EINVAL, "argsz must be 32, not 40"),
        (Command.DMA_UNMAP, bytes(24), errno.EINVAL, "argsz must be 24 or more, not 0"),
        # wrong ids
        (Command.DEVICE_GET_REGION_INFO, words(32, 0, 9, 0, 0, 0, 0, 0), errno.EINVAL, "index must be 0 to 8, not 9"),
        (Command.DEVICE_GET_IRQ_INFO, words(16, 0, 5, 0), errno.EINVAL, "index must be 0 to 4, not 5, at byte 0x8"),
        # regions: bad offsets, giant counts
        (Command.REGION_READ, words(0, 0, 1, 4), errno.EINVAL, "the device has no region 1, at byte 0x8"),
        (Command.REGION_READ, words(0, 0, 99, 4), errno.EINVAL, "the device has no region 99"),
        (Command.REGION_READ, words(0, 0, 0, 0), errno.EINVAL, "count must be 1 to 1048576, not 0, at byte 0xc"),
        (Command.REGION_READ, words(0, 0, 0, 1 << 31), errno.EINVAL, "count must be 1 to 1048576, not 2147483648"),
        (Command.REGION_READ, words(0xFFE, 0, 0, 4), errno.EINVAL, "4 bytes at 0xffe do not lie in region 0 of 0x1000"),
        (Command.REGION_READ, words(0xFFFFFFFF, 0xFFFFFFFF, 0, 4), errno.EINVAL, "at 0xffffffffffffffff do not lie"),
        (Command.REGION_READ, words(0xFF, 0, 7, 2), errno.EINVAL, "2 bytes at 0xff do not lie in region 7 of 0x100"),
        (
            Command.REGION_WRITE,
            words(0, 0, 0, 4),
            errno.EINVAL,
            "the data of REGION_WRITE must have 4 bytes (its count), not 0",
        ),
        (
            Command.REGION_WRITE,
            words(0, 0, 0, 4, 0, 0),
            errno.EINVAL,
            "the data of REGION_WRITE must have 4 bytes (its count), not 8",
        ),
        (Command.REGION_WRITE, words(0x1000, 0, 0, 4, 0), errno.EINVAL, "4 bytes at 0x1000 do not lie in region 0"),
        # DMA
        (
            Command.DMA_MAP,
            dma_map(size=0),
            errno.EINVAL,
            "a DMA window must have at least 1 byte and end at or below 2^64, not be 0x1000..0x1000, at byte "
            "0x18 (size)",
        ),
        (Command.DMA_MAP, dma_map(address=2**64 - 1), errno.EINVAL, "end at or below 2^64, not be 0xffffffffffffffff"),
        (
            Command.DMA_MAP,
            dma_map(flags=0),
            errno.EINVAL,
            "flags must be 1 (readable), 2 (writeable) or 3 (both), not 0x0",
        ),
        (Command.DMA_MAP, dma_map(flags=7), errno.EINVAL, "or 3 (both), not 0x7, at byte 0x4 (flags)"),
        (
            Command.DMA_UNMAP,
            struct.pack("<IIQQ", 24, 0, 0x1000, 0),
            errno.EINVAL,
            "the range to unmap must have at least 1 byte and end at or below 2^64, not be 0x1000..0x1000, at byte "
            "0x10 (size)",
        ),
        (
            Command.DMA_UNMAP,
            struct.pack("<IIQQ", 24, 0, 2**64 - 1, 2),
            errno.EINVAL,
            "the range to unmap must have at least 1 byte and end at or below 2^64, not be "
            "0xffffffffffffffff..0x10000000000000001, at byte 0x10 (size)",
        ),
        (
            Command.DMA_UNMAP,
            struct.pack("<IIQQ", 24, 1, 0x1000, 0x1000),
            errno.EINVAL,
            "flags must be 0, not 0x1, at byte 0x4 (flags)",
        ),
        # interrupts
        (Command.DEVICE_SET_IRQS, words(19, 0x21, 0, 0, 1), errno.EINVAL, "argsz must be 20, the payload's size"),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x20, 0, 0, 1),
            errno.EINVAL,
            "one DATA flag and one ACTION flag, not 0x20",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x23, 0, 0, 1),
            errno.EINVAL,
            "one DATA flag and one ACTION flag, not 0x23",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x31, 0, 0, 1),
            errno.EINVAL,
            "one DATA flag and one ACTION flag, not 0x31",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x61, 0, 0, 1),
            errno.EINVAL,
            "one DATA flag and one ACTION flag, not 0x61",
        ),
        (Command.DEVICE_SET_IRQS, words(20, 0x21, 5, 0, 1), errno.EINVAL, "index must be 0 to 4, not 5"),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x21, 0, 1, 1),
            errno.EINVAL,
            "some of the 1 interrupts of type 0, not 1 from number 1 on",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x21, 1, 0, 1),
            errno.EINVAL,
            "some of the 0 interrupts of type 1, not 1 from number 0 on",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x22, 0, 0, 0xFFFFFFFF),
            errno.EINVAL,
            "some of the 1 interrupts of type 0, not 4294967295 from number 0 on, at byte 0xc (start)",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x22, 0, 0, 1),
            errno.EINVAL,
            "SET_IRQS must have 1 bytes of booleans, not 0",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(24, 0x21, 0, 0, 1, 0),
            errno.EINVAL,
            "SET_IRQS must have 0 bytes of booleans, not 4",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x11, 0, 0, 0),
            errno.EINVAL,
            "count 0 (disable interrupts) must have ACTION_TRIGGER, not ACTION_",
        ),
        (
            Command.DEVICE_SET_IRQS,
            words(20, 0x0C, 0, 0, 1),
            errno.ENOTTY,
            "an eventfd that is signalled when the guest masks an interrupt is not modelled",
        ),
        # not agreed on
        (
            Command.REGION_WRITE_MULTI,
            bytes(8),
            errno.ENOTSUP,
            "REGION_WRITE_MULTI requires the capability write_multiple, which was not negotiated",
        ),
    ],
)
def test_a_message_is_refused(command, payload, number, message):
    refused(command, payload, number, message)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (bytes(7), "WriteMultiHead needs 8 bytes, but the data has 7 left"),
        (struct.pack("<Q", 1), "the writes of REGION_WRITE_MULTI must have 1 (its wr_cnt) times 24 bytes, not 0"),
        (
            struct.pack("<Q", 2**63),
            "REGION_WRITE_MULTI must have 9223372036854775808 (its wr_cnt) times 24 bytes, not 0",
        ),
        (
            struct.pack("<QQIIQ", 1, 0, 0, 9, 0),
            "one write of REGION_WRITE_MULTI must have at most 8 bytes, not 9, at byte 0x14",
        ),
        (struct.pack("<QQIIQ", 1, 0x1000, 0, 4, 0), "4 bytes at 0x1000 do not lie in region 0 of 0x1000"),
        (struct.pack("<QQIIQ", 1, 0, 3, 4, 0), "the device has no region 3, at byte 0x10"),
    ],
)
def test_a_write_multi_is_refused(payload, message):
    refused(Command.REGION_WRITE_MULTI, payload, errno.EINVAL, message, settings=Settings(write_multiple=True))


# File descriptors.


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def test_descriptors_where_none_belong(pipe):
    refused(Command.DEVICE_RESET, b"", errno.EINVAL, "DEVICE_RESET takes at most 0 file descriptors, not 2", fds=pipe)


def test_too_many_descriptors(pipe):
    refused(
        Command.DMA_MAP, dma_map(), errno.EINVAL, "DMA_MAP takes at most 8 file descriptors, not 9", fds=pipe[:1] * 9
    )


def test_two_descriptors_for_one_window(pipe):
    refused(Command.DMA_MAP, dma_map(), errno.EINVAL, "DMA_MAP takes at most one file descriptor", fds=pipe)


def test_an_interrupt_descriptor_that_is_no_eventfd(pipe):
    payload = words(20, 0x24, 0, 0, 1)
    refused(
        Command.DEVICE_SET_IRQS,
        payload,
        errno.EINVAL,
        "the file descriptor of SET_IRQS must be an eventfd",
        fds=pipe[:1],
    )


def test_two_descriptors_for_one_interrupt(pipe):
    payload = words(20, 0x24, 0, 0, 1)
    refused(
        Command.DEVICE_SET_IRQS,
        payload,
        errno.EINVAL,
        "SET_IRQS must have at most 1 file descriptors with these flags, not 2",
        fds=pipe,
    )


def test_a_window_longer_than_its_file():
    memory = Memory(0, 0x1000, shared=True)
    message = "the DMA window needs bytes 0x1000..0x2000 of a file of 0x1000 bytes, at byte 0x8 (offset)"
    refused(Command.DMA_MAP, dma_map(offset=0x1000), errno.EINVAL, message, fds=(memory.fd,))
    refused(Command.DMA_MAP, dma_map(size=1 << 63), errno.EINVAL, "of a file of 0x1000 bytes", fds=(memory.fd,))
    memory.close()


def test_a_window_in_something_that_is_no_memory(pipe):
    with plugged() as (made, client):
        client.call(Command.DMA_MAP, dma_map(), pipe[:1])
        assert made.of(events.Mapped)[0].reason == "the file of the mapping is not sealed against shrinking"


def test_no_descriptor_is_kept(pipe):
    with plugged() as (_, client):
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for command in Command:
            if command in (Command.VERSION, Command.DEVICE_SET_IRQS):
                continue
            with pytest.raises(ServerError):
                client.call(command, bytes(3), pipe)
        assert len(os.listdir("/proc/self/fd")) == before


def test_windows_that_overlap():
    with plugged() as (made, client):
        client.new_memory(0x1000, 0x2000, shared=False)
        for address, size in ((0x1000, 0x2000), (0, 0x1001), (0x2FFF, 1), (0, 0x10000), (0x1800, 0x10)):
            with pytest.raises(ServerError) as caught:
                client.call(Command.DMA_MAP, dma_map(address=address, size=size))
            assert caught.value.errno == errno.EEXIST
            assert "would overlap the mapped DMA window 0x1000..0x3000, at byte 0x10 (address)" in made.refusals[-1]
        for address, size in ((0x1000, 0x1000), (0x2000, 0x1000), (0x1800, 0x10), (0, 0x1001), (0x2FFF, 0x10000)):
            with pytest.raises(ServerError) as caught:
                client.unmap(address, size)
            assert caught.value.errno == errno.EINVAL
            reported = f"{address:#x}..{address + size:#x} would split the DMA window 0x1000..0x3000: unmap all of it"
            assert f"{reported}, at byte 0x8 (address)" in made.refusals[-1]
        assert made.of(events.Unmapped) == []


def test_too_many_windows():
    with plugged(Settings(max_dma_maps=2)) as (made, client):
        for index in range(2):
            client.new_memory(index * 0x1000, 0x1000, shared=False)
        with pytest.raises(ServerError) as caught:
            client.call(Command.DMA_MAP, dma_map(address=0x8000))
        assert caught.value.errno == errno.ENOSPC
        assert "2 DMA windows are mapped already, which is the maximum" in made.refusals[0]


def test_a_posted_message_is_dropped_without_a_reply():
    with plugged() as (made, client):
        client.write(9, 0, b"1234", posted=True)
        assert client.read_u32(SCRATCH) == ALIVE
        assert "the device has no region 9, at byte 0x8, at message 3 (REGION_WRITE, id 0x3)" in made.refusals[0]


def test_replies_to_nothing():
    with plugged() as (made, client):
        client.channel.send(5, Command.DMA_READ, HeaderFlags.REPLY, 0, bytes(16), ())
        assert client.read_u32(SCRATCH) == ALIVE
        assert (
            "the client replied to a command that the server did not send, at message 3 (DMA_READ, id 0x5)"
            in made.refusals[0]
        )


# What ends the connection.


def only_refusals(client):
    while (reply := client.channel.receive(10.0)) is not None:
        assert reply.flags & HeaderFlags.ERROR


def ends(made, client, message):
    with pytest.raises(Disconnected):
        only_refusals(client)
    assert message in made.ended
    # and the next client is served as if nothing had been
    with made.plug() as other:
        assert other.read_u32(SCRATCH) == ALIVE


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "a message must have 16 to 1048624 bytes, not 0, at byte 0x0, at message 1 (VERSION)"),
        (15, "not 15"),
        (1048625, "not 1048625"),
        (0xFFFF_FFFF, "not 4294967295"),
    ],
)
def test_a_size_that_no_message_has(size, message):
    with rig() as made:
        client = made.plug(negotiate=False)
        client.channel._socket.send(struct.pack("<HHIII", 1, 1, size, 0, 0))
        ends(made, client, message)


def test_a_type_that_is_neither_command_nor_reply():
    with rig() as made:
        client = made.plug(negotiate=False)
        client.channel._socket.send(struct.pack("<HHIII", 1, 1, 16, 2, 0))
        ends(made, client, "the type in flags 0x2 is 0x2, neither command (0) nor reply (1), at byte 0x0")


def test_a_first_message_that_is_not_version():
    with rig() as made:
        client = made.plug(negotiate=False)
        client.send(Command.DEVICE_GET_INFO, bytes(16))
        ends(made, client, "DEVICE_GET_INFO came before the version negotiation: send VERSION first")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "VersionHead needs 4 bytes, but the data has 0 left"),
        (b"\1\0\0\0", "the client has protocol version 1.0, the server supports 0.0, at byte 0x0"),
        (bytes(4) + b"{}", "the version data must end with NUL, at byte 0x5"),
        (bytes(4) + b"\xff\0", "the version data must be UTF-8, not 0xff, at byte 0x4"),
        (bytes(4) + b"{\0", "the version data must be JSON: Expecting property name enclosed in double quotes"),
        (bytes(4) + b"[" * 100_000 + b"\0", "the version data must be JSON: nested too deeply"),
        (bytes(4) + b"[]\0", "the version data must be a JSON object, not a list of 0"),
        (bytes(4) + b'{"capabilities":3}\0', "capabilities must be of type dict, not 3"),
        (bytes(4) + b'{"capabilities":{"max_msg_fds":"x"}}\0', "max_msg_fds must be a whole number from 0"),
        (bytes(4) + b'{"capabilities":{"max_data_xfer_size":0}}\0', "max_data_xfer_size must be a whole number from 1"),
        (bytes(4) + b'{"capabilities":{"max_dma_maps":true}}\0', "max_dma_maps must be a whole number"),
        (bytes(4) + b'{"capabilities":{"twin_socket":1}}\0', "twin_socket must be of type dict, not 1"),
        (bytes(4) + b'{"capabilities":{"write_multiple":1}}\0', "write_multiple must be of type bool, not 1"),
        (bytes(4) + b'{"x":' + b"9" * 4301 + b"}\0", "the version data must be JSON: a number has more than"),
        (bytes(4) + b'{"x":-' + b"1" * 900_000 + b"}\0", "the version data must be JSON: a number has more than"),
        (
            bytes(4) + b'{"capabilities":{"pgsizes":' + b"9" * 4300 + b"}}\0",
            "pgsizes must be a whole number from 1 to 2**64 - 1, not 9999",
        ),
        (bytes(4) + b'{"capabilities":{"pgsizes":NaN}}\0', "from 1 to 2**64 - 1, not nan"),
        (bytes(4) + b'{"capabilities":{"pgsizes":1e999}}\0', "pgsizes must be a whole number"),
        (bytes(4) + b'{"capabilities":"\\ud800"}\0', r"capabilities must be of type dict, not '\ud800'"),
        (bytes(4) + b"\xef\xbb\xbf{}\0", "the version data must be JSON: "),
    ],
)
def test_a_version_that_cannot_be_agreed_on(payload, message):
    with rig() as made:
        client = made.plug(negotiate=False)
        client.send(Command.VERSION, payload)
        ends(made, client, message)


@pytest.mark.parametrize("frame", [b"%s", b'{"capabilities":%s}', b'{"capabilities":{"pgsizes":%s}}'])
def test_any_depth_of_version_data_ends_the_session_only(frame):
    with rig() as made:
        for depth in (1, 10, *range(900, 1010, 10), 5000):
            client = made.plug(negotiate=False)
            client.send(Command.VERSION, bytes(4) + frame % (b"[" * depth + b"]" * depth) + b"\0")
            with pytest.raises(Disconnected):
                only_refusals(client)
            client.close()
            assert "the version data must be JSON" in made.ended or " must " in made.ended


def test_more_descriptors_than_any_message_takes(pipe):
    with rig() as made:
        client = made.plug(negotiate=False)
        client.send(Command.VERSION, bytes(4), pipe[:1] * 100)
        ends(made, client, "more than 64 file descriptors came with one message, at byte 0x0")


# Anything.

headers = st.tuples(
    st.integers(0, 0xFFFF),
    st.sampled_from([*range(20), 0xFFFF]),
    st.one_of(st.just(None), st.integers(0, 80), st.integers(0, 0xFFFF_FFFF)),
    st.sampled_from([0, 1, 0x10, 0x20, 0x21, 3, 0xFFFF_FFFF]),
)
numbers = st.one_of(st.sampled_from([0, 1, 4, 7, 16, 20, 24, 32, 0x21, 0x24, 2**32 - 1]), st.integers(0, 2**32 - 1))
payloads = st.one_of(st.binary(max_size=64), st.lists(numbers, max_size=10).map(lambda items: words(*items)))


@settings(max_examples=60)
@given(st.lists(st.tuples(headers, payloads), max_size=8), st.booleans())
def test_whatever_comes_the_next_client_is_served(messages, negotiated):
    with rig() as made:
        client = made.plug(negotiate=False)
        if negotiated:
            client.negotiate(Capabilities())
        for (message_id, command, size, flags), payload in messages:
            size = 16 + len(payload) if size is None else size
            try:
                client.channel._socket.send(struct.pack("<HHIII", message_id, command, size, flags, 0) + payload)
            except OSError:
                break
        made.unplug(client)
        with made.plug() as other:
            assert other.read(7, 0, 2) == b"\x34\x12"
