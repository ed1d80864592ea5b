"""TOCSIN_COORDINATOR, TOCSIN_ZOOKEEPER_AUTH and TOCSIN_ZONE: what is taken, and what is refused in which words."""

from __future__ import annotations

import pytest

from tocsin.coordination import ZooKeeperAddress, parse_auth, parse_coordinator
from tocsin.errors import InvalidError
from tocsin.settings import Settings, load


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zookeeper://a:1,b:2/c", ("a:1", "b:2"), "/c"),
        ("zookeeper://zk-1.example.org, zk_2:2182/a/b.c/", ("zk-1.example.org:2181", "zk_2:2182"), "/a/b.c"),
        ("zookeeper://[::1]:2181", ("[::1]:2181",), "/tocsin"),
        ("zookeeper://10.0.0.1/", ("10.0.0.1:2181",), "/tocsin"),
    ],
)
def test_an_ensemble(text: str, hosts: tuple[str, ...], chroot: str) -> None:
    assert parse_coordinator(text) == ZooKeeperAddress(hosts=hosts, chroot=chroot)
    assert Settings(coordinator=text).zookeeper == ZooKeeperAddress(hosts=hosts, chroot=chroot)


def test_postgres_is_the_default() -> None:
    assert Settings().zookeeper is None
    assert Settings(coordinator="postgres").zookeeper is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("COORDINATOR", "", "`postgres` or `zookeeper://host:port,host:port/chroot`"),
        ("COORDINATOR", "zk://a:1/b", "`postgres` or `zookeeper://host:port,host:port/chroot`"),
        ("COORDINATOR", "zookeeper://", "write host:port"),
        ("COORDINATOR", "zookeeper://a:1,,b:2/c", "write host:port"),
        ("COORDINATOR", "zookeeper://a:b/c", "write host:port"),
        ("COORDINATOR", "zookeeper://a:70000/c", "70000 is no port"),
        ("COORDINATOR", "zookeeper://a:0/c", "0 is no port"),
        ("COORDINATOR", "zookeeper://a:1/b//c", "cannot be a chroot"),
        ("COORDINATOR", "zookeeper://a:1/b/../c", "cannot be a chroot"),
        ("COORDINATOR", "zookeeper://a:1/zookeeper/x", "cannot be a chroot"),
        ("COORDINATOR", "zookeeper://a:1/b c", "cannot be a chroot"),
        ("ZOOKEEPER_AUTH", "beat", "must be `user:password`"),
        ("ZOOKEEPER_AUTH", ":secret", "must be `user:password`"),
        ("ZOOKEEPER_AUTH", "beat:", "must be `user:password`"),
        ("ZONE", "eu west", "a zone is at most 63"),
        ("ZONE", "a@b", "a zone is at most 63"),
        ("ZONE", "z" * 64, "a zone is at most 63"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"TOCSIN_{name}", value)
    with pytest.raises(InvalidError) as refused:
        load()
    [problem] = refused.value.problems
    assert problem.pointer == f"TOCSIN_{name}"
    assert said in problem.detail
    assert "docs/settings.md" in problem.fix


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_auth("beat:se:cret") == ("beat", "se:cret")
    assert "secret" not in repr(Settings(zookeeper_auth="beat:secret"))
    monkeypatch.setenv("TOCSIN_ZOOKEEPER_AUTH", "verysecret")
    with pytest.raises(InvalidError) as refused:
        load()
    assert "verysecret" not in str(refused.value) + str(refused.value.problems)
