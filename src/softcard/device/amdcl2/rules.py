"""The rules of the AMD OpenCL 2.0 ABI specification that code raises; ``rules.toml`` has their text."""

from softcard.core.rule import rules_of

_rule = rules_of(__package__)

REQUIRED_SIZE = _rule("required-size")
