"""Tuple classes are as those of `typing`: fields, defaults, methods, errors, copies."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from offarray.runtime.tuples import NamedTuple


class Ours(NamedTuple):
    """A point."""

    x: int
    y: float = 2.0
    name: str = "p"

    def far(self) -> float:
        """Of the first field."""
        return self.x + self.y

    @property
    def both(self) -> tuple[int, float]:
        """Two fields."""
        return self.x, self.y


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: float = 2.0
    name: str = "p"


class Empty(NamedTuple):
    """No fields."""


def _raised(call: Any) -> Any:
    try:
        return call()
    except TypeError as error:
        return str(error).replace("Theirs", "Ours")


@pytest.mark.parametrize(
    "given", [((), {}), ((1,), {}), ((1, 2.5), {}), ((1, 2, "q"), {}), ((1, 2, "q", 4), {}), ((), {"x": 3}),
              ((1,), {"name": "n"}), ((1,), {"x": 2}), ((1,), {"z": 2})],
)  # fmt: skip
def test_made_as_by_typing(given: Any) -> None:
    args, named = given
    assert _raised(lambda: Ours(*args, **named)) == _raised(lambda: Theirs(*args, **named))


def test_what_tuple_classes_have() -> None:
    for name in ("__doc__", "__module__", "_fields", "_field_defaults", "__match_args__"):
        assert getattr(Ours, name) == getattr(Theirs, name), name
    ours, theirs = Ours(1, name="q"), Theirs(1, name="q")
    assert tuple(ours) == tuple(theirs) and ours == theirs and hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours._asdict() == theirs._asdict()
    assert (ours.far(), ours.both, ours.name) == (3.0, (1, 2.0), "q")
    assert not hasattr(ours, "__dict__")
    with pytest.raises(AttributeError):
        ours.x = 3  # type: ignore[misc]
    match ours:
        case Ours(x, _, name):
            assert (x, name) == (1, "q")


def test_replaced_made_and_copied() -> None:
    ours = Ours(1)
    assert ours._replace(y=4.0) == Ours(1, 4.0) and type(ours._replace(y=4.0)) is Ours
    with pytest.raises((TypeError, ValueError), match="unexpected field names"):
        ours._replace(z=1)
    assert type(Ours._make([1, 2.0, "p"])) is Ours and Ours._make([1, 2.0, "p"]) == ours
    with pytest.raises(TypeError, match="Expected 3 arguments, got 2"):
        Ours._make([1, 2.0])
    for made in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert made == ours and type(made) is Ours


def test_no_fields() -> None:
    assert Empty() == () and repr(Empty()) == "Empty()"
