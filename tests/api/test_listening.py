"""An address that is taken is refused like any other bad input."""

from __future__ import annotations

import socket

import pytest

from tocsin.errors import InvalidError
from tocsin.settings import Settings
from tocsin_api.app import run


def test_a_busy_port_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidError) as refused:
            run(Settings(), "127.0.0.1", port)
    assert f"127.0.0.1:{port} cannot be listened on" in str(refused.value.problems[0])
    assert "another --port" in refused.value.problems[0].fix
