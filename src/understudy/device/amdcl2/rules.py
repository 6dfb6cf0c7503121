"""Rules of the AMD OpenCL 2.0 ABI document that code raises; what they say stands in ``rules.toml``."""

from understudy.core.rule import rules_of

_rule = rules_of(__package__)

REQUIRED_SIZE = _rule("required-size")
