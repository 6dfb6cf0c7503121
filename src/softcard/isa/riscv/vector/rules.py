"""The rules of the vector extension that errors refer to; their texts are in ``rules.toml``."""

from softcard.core.rule import rules_of

_rule = rules_of(__package__)

VS_OFF = _rule("vs-off")
GROUP_START = _rule("group-start")
VILL_ILLEGAL = _rule("vill-illegal")
VSTART_NEVER = _rule("vstart-never")
EMUL_RANGE = _rule("emul-range")
EEW_SUPPORTED = _rule("eew-supported")
OVERLAP = _rule("overlap")
MASK_OVERLAP = _rule("mask-overlap")
SEGMENT_REGISTERS = _rule("segment-registers")
SEGMENT_END = _rule("segment-end")
SEGMENT_INDEX_OVERLAP = _rule("segment-index-overlap")
WHOLE_GROUP = _rule("whole-group")
FRM_RESERVED = _rule("frm-reserved")
FLOAT_WIDTH = _rule("float-width")
AROUND_FIRST_OVERLAP = _rule("around-first-overlap")
IOTA_OVERLAP = _rule("iota-overlap")
SLIDE_UP_OVERLAP = _rule("slide-up-overlap")
SLIDE_ONE_UP_OVERLAP = _rule("slide-one-up-overlap")
GATHER_OVERLAP = _rule("gather-overlap")
COMPRESS_OVERLAP = _rule("compress-overlap")
WHOLE_MOVE_GROUP = _rule("whole-move-group")
