from collections.abc import Iterator

import pytest

from tests.host.opencl.program import Program


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program()
    yield made
    made.close()
