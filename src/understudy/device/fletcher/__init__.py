"""Fletcher (`fletcher-mmio`): register maps from Arrow schemas, the device, and its kernels."""

from understudy.image.arrow_schema import ArrowMissing, pyarrow

try:
    pyarrow()  # all of it works with Arrow
except ArrowMissing as error:
    raise ModuleNotFoundError(error.message, name="pyarrow") from None
