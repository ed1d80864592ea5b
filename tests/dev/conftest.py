"""One dev server for the tests that only use it; the tests that end one start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .dev_process import Dev


@pytest.fixture(scope="session")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """A ready dev server with the sample jobs."""
    with Dev(tmp_path_factory.mktemp("dev")) as server:
        yield server
