"""Settings: declared once, checked, restored, and documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from offarray.runtime import config as module
from offarray.runtime.config import REGISTRY, config, from_environment, settings

DOCS = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_settings_are_restored_at_the_end_of_the_block() -> None:
    before = config.get()
    with config(eager_size=7, fallback="raise"):
        assert (settings.eager_size, settings.fallback) == (7, "raise")
        with config(eager_size=9):
            assert settings.eager_size == 9
        assert settings.eager_size == 7
    assert config.get() == before


def test_settings_are_restored_after_an_error() -> None:
    before = settings.bound
    with pytest.raises(KeyError), config(bound=1):
        raise KeyError
    assert settings.bound == before


def test_a_plain_call_sets_for_good() -> None:
    config(bound=3)
    assert config.get("bound") == settings.bound == 3


@pytest.mark.parametrize(("wrong", "right"), [("eager_sise", "eager_size"), ("Threads", "threads"), ("zzz", "")])
def test_unknown_name(wrong: str, right: str) -> None:
    with pytest.raises(TypeError, match=f"{wrong}.*did you mean '{right}"):
        config(**{wrong: 1})
    with pytest.raises(TypeError, match=wrong):
        config.get(wrong)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fallback", "maybe"), ("eager_size", -1), ("eager_size", "many"), ("eager_size", 1.5), ("threads", -1),
        ("threads", 5000), ("debug", 8), ("donate", "perhaps"), ("donate", 2), ("bound", 0), ("cache_dir", 3),
        ("threads", "2k"), ("device", None),
    ],
)  # fmt: skip
def test_bad_value_changes_nothing(name: str, value: object) -> None:
    before = config.get()
    with pytest.raises(ValueError, match=f"^{name} must be"):
        config(**{"bound_bytes": 1, name: value})
    assert config.get() == before


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("fallback", "warn", "warn"), ("eager_size", "0", 0), ("memory_limit", "2GiB", 2 << 30),
        ("pool_bytes", "64m", 64 << 20),
        ("donate", "off", False), ("cache", "Yes", True), ("cache_dir", "/some/where", "/some/where"),
    ],
)  # fmt: skip
def test_environment(name: str, text: str, value: object) -> None:
    assert getattr(from_environment({"OFFARRAY_" + name.upper(): text}), name) == value


def test_an_empty_variable_is_no_setting() -> None:
    assert from_environment({"OFFARRAY_THREADS": ""}) == from_environment({})


@pytest.mark.parametrize("text", ["-1", "two", "1.5"])
def test_a_bad_variable_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"^OFFARRAY_THREADS must be an integer, at least 0.*'{text}'"):
        from_environment({"OFFARRAY_THREADS": text})


def test_every_default_is_valid() -> None:
    for setting in REGISTRY.values():
        assert module.parse(setting.name, setting.default) == setting.default
        assert setting.help.endswith(".")


def test_documentation_is_current() -> None:
    command = 'python -c "from offarray.runtime.config import table; print(table(), end=str())" > docs/settings.md'
    assert DOCS.read_text() == module.table(), command
