"""Machine code made beforehand is what LLVM makes of its text now, and runs.

Written anew by `python -m tests.codegen.test_ready`.
"""

from __future__ import annotations

import ctypes
import textwrap
from pathlib import Path

import pytest

from offarray.codegen import builtin, crew, host, image, llvm, ready
from offarray.runtime.cache import digest

pytestmark = pytest.mark.skipif(not image.loadable(), reason="images are not loaded here")

FILE = Path(ready.__file__)


def texts() -> dict[str, str]:
    """Everything that is made beforehand."""
    found = crew.text()
    assert found is not None
    return {"builtin": builtin.text(), "crew": found}


def made(text: str) -> image.Image:
    """What LLVM makes of a text for any processor of the kind."""
    llvm.start()
    machine = llvm.Machine("x86_64-unknown-linux-gnu", "x86-64", "", host.OPT)
    return image.laid_out(machine.emit(llvm.Module(text)))


def source() -> str:
    """The table of images, as ready.py has it."""
    lines = ["IMAGES: dict[str, Image] = {"]
    for name, text in texts().items():
        found = made(text)
        lines += [f'    "{digest(text)}": Image(  # {name}.py', "        bytes.fromhex("]
        lines += [f'            "{line}"' for line in textwrap.wrap(found.code.hex(), 104)]
        functions = ", ".join(f'"{key}": {value}' for key, value in found.functions.items())
        lines += ["        ),", f"        {{{functions}}},", f"        {found.inner},", "        ["]
        lines += [f'            ({place}, "{symbol}", {added}),' for place, symbol, added in found.outer]
        lines += ["        ],", "    ),"]
    return "\n".join([*lines, "}  # fmt: skip", ""])


def test_ready_made_code_is_that_of_its_text() -> None:
    hint = "python -m tests.codegen.test_ready"
    assert set(ready.IMAGES) == {digest(text) for text in texts().values()}, hint
    if llvm.version() == "0.50.0":  # another LLVM may choose other instructions
        assert source() in FILE.read_text(), hint


def test_images_are_independent_of_their_place() -> None:
    found = made(texts()["builtin"])
    resolve = builtin.symbols().__getitem__
    first, second = image.load(found, resolve), image.load(found, resolve)
    assert first.keys() == second.keys() == {*builtin.NAMES.values(), builtin.LAUNCH}
    assert all(first[name] != second[name] for name in first)


def test_methods_refuse_what_they_cannot_pass_on() -> None:
    calls: list[tuple[int, int, int]] = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def body(args: int, low: int, high: int) -> int:
        calls.append((args, low, high))
        return -7

    call = host.callable_at(3, ctypes.cast(body, ctypes.c_void_p).value or 0)
    assert call(1 << 40, -2, 3) == -7
    assert calls == [(1 << 40, -2, 3)]
    for wrong in ((), (1, 2), (1, 2, 3, 4)):
        with pytest.raises(TypeError):
            call(*wrong)
    with pytest.raises((TypeError, OverflowError)):
        call("a", 0, 0)  # type: ignore[arg-type]
    with pytest.raises((TypeError, OverflowError)):
        call(1, 2, 1 << 70)
    assert len(calls) == 1


def main() -> None:
    """Write the table anew."""
    head, _, rest = FILE.read_text().partition("IMAGES: dict[str, Image] = {")
    FILE.write_text(head + source() + rest[rest.index("\n\n\ndef find") + 1 :])


if __name__ == "__main__":
    main()
