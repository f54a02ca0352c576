"""The settings, each declared once: its name, type, default and help; the environment variable is OFFARRAY_<NAME>.

`settings` is read on the hot path, as plain attributes; `config` is how a user changes it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from typing import Any

from .tuples import NamedTuple

MIB = 1 << 20


class _Field(NamedTuple):
    """A setting as it is declared."""

    default: Any
    help: str
    choices: tuple[str, ...]
    low: int
    high: int | None
    unit: str


def _setting(
    default: Any, text: str, choices: tuple[str, ...] = (), low: int = 0, high: int | None = None, unit: str = ""
) -> Any:
    return _Field(default, text, choices, low, high, unit)


class Settings:
    """Every setting as a plain attribute."""

    def __init__(self, **values: Any) -> None:
        for setting in REGISTRY.values():
            setattr(self, setting.name, values.pop(setting.name, setting.default))
        assert not values

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in REGISTRY:
            raise AttributeError(f"no setting is named {name!r}")
        object.__setattr__(self, name, value)
        for tell in _watchers.get(name, ()):
            tell(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and vars(self) == vars(other)

    fallback: str = _setting(
        "allow", "What happens when NumPy must run a function that has no native form.", ("allow", "warn", "raise")
    )
    device: str = _setting(
        "auto",
        "Where work runs: on a graphics processor where that is quicker, transfers included (auto), on the processor "
        "(cpu), on a graphics processor (cuda, cuda:N), in NumPy (interpret), or not at all (null).",
        ("auto", "cpu", "cuda", *(f"cuda:{n}" for n in range(8)), "interpret", "null"),
    )
    eager_size: int = _setting(32768, "Operations on at most this many elements run at once; 0 records everything.")
    wait_size: int = _setting(
        1024,
        "Of work that runs at once, results of at least this many elements that the program is seen to use in its "
        "next operation wait for it, and one kernel computes both; 0: all wait. For the compiled front end.",
    )
    bound: int = _setting(64, "Number of recorded operations after which pending work is evaluated.", low=1)
    bound_bytes: int = _setting(256 * MIB, "Bytes of pending results after which they are evaluated.", unit="bytes")
    scalars: str = _setting(
        "lazy", "What a full reduction of a large array gives: a lazy scalar or a NumPy scalar.", ("lazy", "numpy")
    )
    faults: str = _setting(
        "auto",
        "When floating-point warnings come: with the evaluation (deferred), at their line (statement), or at their "
        "line only where a handler could tell the difference (auto).",
        ("auto", "statement", "deferred"),
    )
    donate: bool = _setting(True, "Let a kernel overwrite an input that nothing else will read.")
    libmvec: bool = _setting(True, "Use the C library's vector mathematics where it has them.")
    threads: int = _setting(0, "Threads that run one kernel; 0 means one for each core.", high=1024)
    memory_limit: int = _setting(0, "Most bytes that arrays may take together; 0 means no limit.", unit="bytes")
    device_memory: int = _setting(
        0, "Most bytes of a device that arrays may take, the others being kept by the host; 0 means all.", unit="bytes"
    )
    pinned_bytes: int = _setting(
        8 << 30,
        "Most bytes of host memory that are pinned for values that make room on a device, and at most a quarter of the "
        "host's memory; 0 keeps them in pageable memory.",
        unit="bytes",
    )
    transfer_guard: str = _setting(
        "allow",
        "Transfers between host and device that the program did not ask for by name.",
        ("allow", "log", "disallow"),
    )
    random: str = _setting(
        "numpy",
        "Random numbers that a device draws: NumPy's (numpy), or those of distributions that NumPy makes one after "
        "the other, from another stream (fast).",
        ("numpy", "fast"),
    )
    pool_bytes: int = _setting(512 * MIB, "Most bytes of freed memory that are kept for new arrays.", unit="bytes")
    cache: bool = _setting(True, "Keep compiled kernels on disk.")
    cache_dir: str = _setting("", "Folder of the compiled kernels; empty means offarray under the user's cache folder.")
    cache_size: int = _setting(256 * MIB, "Most bytes that compiled kernels may take on disk.", unit="bytes")
    check: int = _setting(0, "1: verify operands before each launch, and overwrite freed memory.", high=9)
    debug: int = _setting(
        0,
        "What is told on stderr: 1 evaluations, 2 kernels with time and GB/s, 3 fusion decisions, 4 LLVM IR, "
        "5 graph, 6 kernel IR, 7 assembly; each level includes the ones below.",
        high=7,
    )


class Setting(NamedTuple):
    """Description of one setting."""

    name: str
    env: str
    type: str  # "bool", "int" or "str"
    default: bool | int | str
    help: str
    choices: tuple[str, ...]
    low: int
    high: int | None
    unit: str


def _declared() -> dict[str, Setting]:
    """The settings as the class declares them, which from then on only its instances have."""
    found = {}
    for name, kind in Settings.__annotations__.items():
        default, *rest = vars(Settings)[name]
        found[name] = Setting(name, "OFFARRAY_" + name.upper(), kind, default, *rest)
        delattr(Settings, name)
    return found


REGISTRY: dict[str, Setting] = _declared()

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _number(setting: Setting, value: Any) -> int | None:
    """`value` as an integer, or None; text may carry a unit where the setting counts bytes."""
    if isinstance(value, str):
        import re  # few programs come here

        match = re.fullmatch(r"\s*([+-]?\d+)\s*(?:([kmgt]?)(?:i?b)?)?\s*", value.lower())
        if match is None or (match[2] and setting.unit != "bytes"):
            return None
        return int(match[1]) * _SCALE[match[2] or ""]
    try:
        return operator.index(value)
    except TypeError:
        return None


def _expected(setting: Setting) -> str:
    if setting.choices:
        return "one of " + ", ".join(repr(c) for c in setting.choices)
    if setting.type == "bool":
        return "True or False"
    if setting.type == "str":
        return "a string"
    upper = f" and at most {setting.high}" if setting.high is not None else ""
    return f"an integer, at least {setting.low}{upper}"


def parse(name: str, value: Any, source: str = "") -> bool | int | str:
    """`value` checked and converted for the setting `name`; `source` names where it came from, for the message."""
    setting = REGISTRY[name]
    result: bool | int | str | None = None
    if setting.type == "bool":
        if isinstance(value, str):
            result = _WORDS.get(value.strip().lower())
        elif isinstance(value, int) and value in (0, 1):
            result = bool(value)
    elif setting.type == "int":
        number = _number(setting, value)
        if number is not None and number >= setting.low and (setting.high is None or number <= setting.high):
            result = number
    elif isinstance(value, (str, os.PathLike)) and (not setting.choices or value in setting.choices):
        result = os.fspath(value)
    if result is None:
        raise ValueError(f"{source or name} must be {_expected(setting)}, not {value!r}")
    return result


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Settings as `environ` asks for; an empty variable counts as absent."""
    values = {s.name: parse(s.name, environ[s.env], s.env) for s in REGISTRY.values() if environ.get(s.env)}
    return Settings(**values)


_watchers: dict[str, list[Callable[[Any], None]]] = {}
settings = from_environment(os.environ)


def watch(name: str, tell: Callable[[Any], None]) -> None:
    """Call `tell` with the value of a setting, now and whenever it is set."""
    _watchers.setdefault(name, []).append(tell)
    tell(getattr(settings, name))


class config:
    """Change settings, for good or within a `with` block.

    Parameters
    ----------
    **values
        Settings by name.  They take effect at once, for every thread; `with config(...):` puts the former
        values back at the end of the block.

    Raises
    ------
    TypeError
        For a name that is no setting.
    ValueError
        For a value that the setting cannot take; nothing is changed then.

    Examples
    --------
    >>> with offarray.config(eager_size=0):
    ...     pass
    """

    __slots__ = ("_former",)

    def __init__(self, **values: Any) -> None:
        for name in values:
            _known(name)
        parsed = {name: parse(name, value) for name, value in values.items()}
        self._former = {name: getattr(settings, name) for name in parsed}
        for name, value in parsed.items():
            setattr(settings, name, value)

    def __enter__(self) -> config:
        return self

    def __exit__(self, *exception: object) -> None:
        for name, value in self._former.items():
            setattr(settings, name, value)

    @staticmethod
    def get(name: str | None = None) -> Any:
        """The value of one setting, or all of them as a dictionary."""
        if name is None:
            return {key: getattr(settings, key) for key in REGISTRY}
        _known(name)
        return getattr(settings, name)


def _known(name: str) -> None:
    if name in REGISTRY:
        return
    import difflib  # few programs come here

    near = difflib.get_close_matches(name, REGISTRY, n=1, cutoff=0.0)
    raise TypeError(f"no setting is named {name!r}; did you mean {near[0]!r}?")


def _shown(setting: Setting) -> str:
    value = setting.default
    if setting.unit == "bytes" and isinstance(value, int) and value >= MIB:
        return f"{value // MIB} MiB"
    return f"`{value!r}`"


def table() -> str:
    """The text of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Set them in the environment, with `offarray.config(name=value)`, or for a block with",
        "`with offarray.config(name=value):`.  Sizes in bytes may be written as `64M` or `2GiB` in the environment.",
        "",
        "| name | environment | type | default | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for s in REGISTRY.values():
        kind = ", ".join(f"`{c}`" for c in s.choices) or (f"{s.type}, {s.unit}" if s.unit else s.type)
        lines.append(f"| `{s.name}` | `{s.env}` | {kind} | {_shown(s)} | {s.help} |")
    return "\n".join(lines) + "\n"
