"""The rules of the vfio-user protocol that the server checks, and the errno in the reply to a violation.

The text of the rules is in ``rules.toml``.
"""

import errno
from typing import Final

from softcard.core.errors import BeyondModel, RuleError, SoftcardError
from softcard.core.record import Record
from softcard.core.rule import Rule, rules_of

_rule = rules_of(__package__)

MESSAGE_SIZE = _rule("message-size")
MESSAGE_TYPE = _rule("message-type")
COMMAND = _rule("command")
DIRECTION = _rule("direction")
REPLY_MATCH = _rule("reply-match")
VERSION_FIRST = _rule("version-first")
VERSION_ONCE = _rule("version-once")
VERSION_MAJOR = _rule("version-major")
VERSION_DATA = _rule("version-data")
PAYLOAD = _rule("payload")
ARGSZ = _rule("argsz")
FDS = _rule("fds")
ZERO = _rule("zero")
DMA_MAP_OVERLAP = _rule("dma-map-overlap")
DMA_MAP_RANGE = _rule("dma-map-range")
DMA_MAP_FLAGS = _rule("dma-map-flags")
DMA_MAP_FD = _rule("dma-map-fd")
DMA_MAP_COUNT = _rule("dma-map-count")
DMA_UNMAP_EXACT = _rule("dma-unmap-exact")
DMA_UNMAP_FLAGS = _rule("dma-unmap-flags")
DMA_MAPPED = _rule("dma-mapped")
DMA_ACCESS = _rule("dma-access")
DMA_REPLY = _rule("dma-reply")
REGION_INDEX = _rule("region-index")
REGION_BOUNDS = _rule("region-bounds")
REGION_COUNT = _rule("region-count")
WRITE_MULTI = _rule("write-multi")
WRITE_MULTI_COUNT = _rule("write-multi-count")
IRQ_INDEX = _rule("irq-index")
IRQ_FLAGS = _rule("irq-flags")
IRQ_RANGE = _rule("irq-range")
IRQ_DATA = _rule("irq-data")
IRQ_FD = _rule("irq-fd")
BUS_MASTER = _rule("pci/bus-master")
REGION_IO_FDS = _rule("region-io-fds")
MASK_EVENTFD = _rule("mask-eventfd")
MIGRATION = _rule("migration")

ERRNO: Final = {
    MESSAGE_SIZE: errno.EMSGSIZE,
    **dict.fromkeys((MESSAGE_TYPE, REPLY_MATCH, VERSION_FIRST), errno.EPROTO),
    **dict.fromkeys((COMMAND, DIRECTION, VERSION_MAJOR, WRITE_MULTI, REGION_IO_FDS), errno.ENOTSUP),
    DMA_MAP_OVERLAP: errno.EEXIST,
    DMA_MAP_COUNT: errno.ENOSPC,
    **dict.fromkeys((MASK_EVENTFD, MIGRATION), errno.ENOTTY),
}
"""The errno of each rule whose errno is not EINVAL."""


def broken(rule: Rule, record: type[Record], field: str, text: str) -> RuleError:
    """Return the error with the message `text` for a `record` whose field named `field` violates `rule`."""
    return RuleError(text, rule=rule).at("byte", record.offset_of(field), field)


def reply_errno(error: SoftcardError) -> int:
    """Return the errno that a reply carries for `error`."""
    otherwise = errno.ENOTSUP if isinstance(error, BeyondModel) else errno.EINVAL
    return otherwise if error.rule is None else ERRNO.get(error.rule, otherwise)
