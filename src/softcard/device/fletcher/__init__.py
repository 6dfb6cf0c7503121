"""The Fletcher device (`fletcher-mmio`): register maps from Arrow schemas, the device, and kernels."""

from softcard.image.arrow_schema import ArrowMissing, pyarrow

try:
    pyarrow()  # everything here needs pyarrow
except ArrowMissing as error:
    raise ModuleNotFoundError(error.message, name="pyarrow") from None
