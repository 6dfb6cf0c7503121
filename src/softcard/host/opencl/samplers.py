"""Samplers: their properties, and the sampler objects that kernels receive."""

from __future__ import annotations

from typing import Final

from softcard.host.hsa.arguments import Given
from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import Call, Made, entry, query, u32, u64, words
from softcard.host.opencl.errors import require
from softcard.host.opencl.images import check_support
from softcard.host.opencl.objects import Context, Device, Object
from softcard.image.amdcl2.objects import Addressing, Filter, SamplerObject

ADDRESSINGS: Final = {
    cl.ADDRESS_NONE: Addressing.NONE,
    cl.ADDRESS_CLAMP_TO_EDGE: Addressing.CLAMP_TO_EDGE,
    cl.ADDRESS_CLAMP: Addressing.CLAMP,
    cl.ADDRESS_REPEAT: Addressing.REPEAT,
    cl.ADDRESS_MIRRORED_REPEAT: Addressing.MIRRORED_REPEAT,
}
"""The addressing modes by their numbers in ``cl_addressing_mode``."""
FILTERS: Final = {cl.FILTER_NEAREST: Filter.NEAREST, cl.FILTER_LINEAR: Filter.LINEAR}
"""The filter modes by their numbers in ``cl_filter_mode``."""
DEFAULTS: Final = {
    cl.SAMPLER_NORMALIZED_COORDS: cl.TRUE,
    cl.SAMPLER_ADDRESSING_MODE: cl.ADDRESS_CLAMP,
    cl.SAMPLER_FILTER_MODE: cl.FILTER_NEAREST,
}
"""The properties of samplers, and the values of those that the program does not pass."""


class Sampler(Object):
    """A sampler. `normalized`, `addressing` and `filter` have OpenCL's numbers; `properties` are those of the call."""

    kind = "sampler"

    def __init__(
        self,
        context: Context,
        handle: int,
        normalized: int,
        addressing: int,
        filter: int,
        properties: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(context.platform, handle)
        check_support(context)
        require(
            normalized in (cl.TRUE, cl.FALSE) and addressing in ADDRESSINGS and filter in FILTERS,
            cl.INVALID_VALUE,
            f"normalized coordinates {normalized}, addressing mode {addressing:#x} and filter mode {filter:#x} cannot "
            "be combined in a sampler: expected 0 or 1, a CL_ADDRESS_* number and a CL_FILTER_* number",
        )
        self.context = context
        self.normalized = normalized
        self.addressing = addressing
        self.filter = filter
        self.properties = properties
        made = SamplerObject.of(bool(normalized), ADDRESSINGS[addressing], FILTERS[filter])
        self._data = made.pack()

    def argument(self, device: Device) -> Given:
        """Return the address of the sampler object on a device."""
        return device.constant(self._data, "sampler object")


@entry("clCreateSampler")
def create_sampler(call: Call, context: Context, normalized: int, addressing: int, filter: int) -> Made:
    """Make a sampler."""
    return Made(Sampler(context, call.made, normalized, addressing, filter))


@entry("clCreateSamplerWithProperties")
def create_sampler_with_properties(call: Call, context: Context, properties: tuple[int, ...] | None) -> Made:
    """Make a sampler; properties that the program does not pass have their defaults."""
    found = dict(DEFAULTS)
    names = (properties or ())[::2]
    for name, value in zip(names, (properties or ())[1::2], strict=True):
        is_single = names.count(name) == 1
        require(
            name in DEFAULTS and is_single,
            cl.INVALID_VALUE,
            f"the sampler property {name:#x} is unknown or occurs twice, expected CL_SAMPLER_NORMALIZED_COORDS, "
            "CL_SAMPLER_ADDRESSING_MODE and CL_SAMPLER_FILTER_MODE at most once each",
        )
        found[name] = value
    normalized, addressing, filter = found.values()
    return Made(Sampler(context, call.made, normalized, addressing, filter, properties))


@entry("clGetSamplerInfo")
def get_sampler_info(call: Call, sampler: Sampler, name: int) -> bytes:
    """Answer a query of a sampler."""
    return query(
        name,
        {
            cl.SAMPLER_CONTEXT: lambda: u64(sampler.context.handle),
            cl.SAMPLER_NORMALIZED_COORDS: lambda: u32(sampler.normalized),
            cl.SAMPLER_ADDRESSING_MODE: lambda: u32(sampler.addressing),
            cl.SAMPLER_FILTER_MODE: lambda: u32(sampler.filter),
            cl.SAMPLER_PROPERTIES: lambda: words(sampler.properties),
        },
        "clGetSamplerInfo",
    )
