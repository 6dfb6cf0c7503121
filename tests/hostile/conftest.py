"""Made-up code is compiled, too; it does not belong into the user's folder of compiled code."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _own_code_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
