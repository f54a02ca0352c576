"""The code cache on disk: round trips, damage, strangers, bounds and places that cannot be used."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from offarray.runtime import cache
from offarray.runtime.config import config

Told = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that does not exist yet."""
    monkeypatch.setattr(cache, "_told", set())
    config(cache=True, cache_dir=tmp_path / "deep" / "code", cache_size=1 << 20)
    return tmp_path / "deep" / "code"


def only(place: Path) -> Path:
    (path,) = place.iterdir()
    return path


def test_round_trip(place: Path, counters: dict[str, int]) -> None:
    assert cache.load("key") is None
    cache.store("key", b"code\0\xff")
    cache.store("other", b"")
    assert cache.load("key") == b"code\0\xff"
    assert cache.load("other") == b""
    assert cache.load("key ") is None
    assert counters["cache_hits"] == 2
    cache.store("key", b"new")
    assert cache.load("key") == b"new"
    cache.clear()
    assert cache.load("key") is None
    assert not list(place.iterdir())


def test_private_to_the_user(place: Path) -> None:
    cache.store("key", b"code")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(only(place).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-1], lambda b: b + b"x", lambda b: b"", lambda b: b[:20], lambda b: b"x" + b[1:],
        lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b.replace(cache.MAGIC, b"offarray code 1\n"),
    ],
)  # fmt: skip
def test_damage_is_noticed_told_once_and_repaired(place: Path, told: Told, damage: object) -> None:
    cache.store("key", b"some machine code")
    path = only(place)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert cache.load("key") is None
    assert cache.load("key") is None
    assert told.readouterr().err.count("damaged") == 1
    cache.store("key", b"some machine code")
    assert cache.load("key") == b"some machine code"


def test_code_of_another_key_is_refused(place: Path) -> None:
    cache.store("one", b"code")
    only(place).rename(place / cache._name("two"))
    assert cache.load("two") is None


def test_what_others_can_write_is_not_loaded(place: Path, told: Told) -> None:
    cache.store("key", b"code")
    path = only(place)
    path.chmod(0o666)
    assert cache.load("key") is None
    path.chmod(0o600)
    assert cache.load("key") == b"code"
    place.chmod(0o777)
    assert cache.load("key") is None
    cache.store("more", b"code")
    assert only(place) == path
    lines = told.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "others can write" in lines[0]
    assert "only its user can write" in lines[1]


def test_bounded_by_what_was_used_longest_ago(place: Path) -> None:
    config(cache_size=10_000)
    for n in range(12):
        cache.store(str(n), bytes(900))
        os.utime(place / cache._name(str(n)), (n, n))
        if n == 8:
            cache.load("0")  # used just now
        assert sum(p.stat().st_size for p in place.iterdir()) <= 10_000
    assert cache.load("0") is not None
    assert cache.load("1") is None
    assert cache.load("11") is not None
    cache.store("big", bytes(20_000))
    assert cache.load("big") is None
    assert cache.load("11") is not None


def test_a_place_that_cannot_be_used_is_told_once(tmp_path: Path, told: Told) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    config(cache_dir=file / "below")
    for _ in range(2):
        cache.store("key", b"code")
        assert cache.load("key") is None
    assert len(told.readouterr().err.splitlines()) == 1


def test_a_failed_write_leaves_nothing_behind(place: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("first", b"code")

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.store("key", b"code")
    assert cache.load("key") is None
    assert cache.load("first") == b"code"
    assert only(place)
    assert "No space left" in told.readouterr().err


def test_switched_off(place: Path) -> None:
    config(cache=False)
    cache.store("key", b"code")
    assert cache.load("key") is None
    assert not place.exists()


def test_default_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config(cache_dir="")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == str(tmp_path / "offarray")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.folder() == str(tmp_path / "home" / ".cache" / "offarray")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache.folder() is None
    cache.store("key", b"code")
    assert cache.load("key") is None
