"""What threads do for kernels: better code in place of code made quickly, kept however a process ends."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from offarray.codegen import host, image, mathlib, prepare, ready
from offarray.codegen.compile import host_target
from offarray.runtime import cache
from offarray.runtime.config import config

quick = pytest.mark.skipif(
    not (ready.here() and image.loadable() and prepare.spare()), reason="no code is made quickly here"
)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def code(number: int) -> bytes:
    """A body that gives the number, and a finish that gives its negative."""
    text = (
        f"define i32 @k_body(ptr %a, i64 %b, i64 %c) {{\n ret i32 {number}\n}}\n"
        f"define i32 @k_finish(ptr %a) {{\n ret i32 -{number}\n}}\n"
    )
    return host.pack(host.build(text, host_target()), ())


@quick
def test_callables_run_the_better_code_once_it_is_there() -> None:
    (body, finish), improve = host.passing(code(3), "k", True)
    assert finish is not None
    assert (body(0, 0, 0), finish(0)) == (3, -3)
    others, _ = host.passing(code(5), "k", True)
    stop, seen = threading.Event(), set[int]()

    def call() -> None:
        while not stop.is_set():
            seen.add(body(0, 0, 0))

    caller = threading.Thread(target=call)
    caller.start()
    improve(code(4))
    assert (body(0, 0, 0), finish(0)) == (4, -4)
    improve(code(7))
    stop.set()
    caller.join()
    assert (body(0, 0, 0), finish(0)) == (7, -7)
    assert seen <= {3, 4, 7}
    assert others[0](0, 0, 0) == 5


def test_what_is_put_off_is_done_in_order_after_a_pause() -> None:
    done: list[object] = []
    for n in range(3):
        prepare.later(lambda n=n: done.append((n, threading.get_ident())))  # type: ignore[misc]
    assert done == []
    until = time.monotonic() + 30
    while len(done) < 3 and time.monotonic() < until:
        time.sleep(0.005)
    assert [n for n, _ in done] == [0, 1, 2]  # type: ignore[misc]
    assert threading.get_ident() not in {thread for _, thread in done}  # type: ignore[misc]


def test_it_is_done_at_once_when_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "PAUSE", 0.5)
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError("not this time")

    prepare.later(fail)
    prepare.later(lambda: done.append(1))
    prepare.finish()
    assert done == [1]


HEAD = """
import json, os, sys, time
import numpy
import offarray as np
from offarray.codegen import prepare
prepare.PAUSE = 1e9  # only what has to be kept is
np.config(device="cpu", eager_size=0)
def work():
    a = np.array(numpy.linspace(0.0, 1.0, 4000))
    found = numpy.asarray(a * 2.0 - 0.5)
    assert numpy.array_equal(found, numpy.linspace(0.0, 1.0, 4000) * 2.0 - 0.5)
def told():
    print(json.dumps([np.stats()["compiles"], np.stats()["cache_hits"]]))
"""
ENDS = {
    "the end": "work(); told()",
    "an error": "sys.excepthook = lambda *a: os.dup2(os.open(os.devnull, os.O_WRONLY), 2)\nwork(); told(); sys.exit(0)",
    "a thread": "import threading\nt = threading.Thread(target=work); t.start(); t.join(); told()",
    "a fork": "import warnings; warnings.simplefilter('ignore')\nwork()\nif not os.fork(): os._exit(0)\n"
    "os.wait(); told(); sys.stdout.flush(); os._exit(0)",
    "a child": "import warnings; warnings.simplefilter('ignore')\nimport multiprocessing\n"
    "c = multiprocessing.get_context('fork').Process(target=work); c.start(); c.join(); assert not c.exitcode\n"
    "print('[1, 0]')",
}  # fmt: skip


@forks
@pytest.mark.parametrize("end", ENDS)
def test_better_code_is_kept_however_a_process_ends(end: str, tmp_path: Path) -> None:
    given = {**os.environ, "OFFARRAY_CACHE_DIR": str(tmp_path)}
    for program, want in ((ENDS[end], [1, 0]), ("work(); told()", [0, 1])):
        script = HEAD + textwrap.dedent(program)
        done = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == want, end


def test_a_process_that_leaves_at_once_keeps_the_code_that_it_had(tmp_path: Path) -> None:
    """The next one begins with it, and makes the better code that the first had no time for."""
    given = {**os.environ, "OFFARRAY_CACHE_DIR": str(tmp_path)}
    head = HEAD + "from offarray.fusion import kept\nkept.LIMIT = 0  # code alone is on disk\n"
    leave = "work(); told(); sys.stdout.flush(); os._exit(0)"
    sizes = []
    for program, want in ((leave, [1, 0]), (leave, [0, 1]), ("work(); told()", [0, 1]), ("work(); told()", [0, 1])):
        done = subprocess.run(
            [sys.executable, "-c", head + program], env=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == want
        sizes.append(sorted(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
    assert sizes[0] == sizes[1] and sizes[2] != sizes[1] and sizes[3] == sizes[2]  # replaced once, at an ordinary end


def test_kernels_are_built_after_the_end_too(tmp_path: Path) -> None:
    before = "import atexit\natexit.register(lambda: (work(), time.sleep(0.1), told()))\n"
    script = before + HEAD.replace("1e9", "0.01")
    given = {**os.environ, "OFFARRAY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [1, 0]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a core here")
def test_one_core_makes_good_code_at_once(tmp_path: Path) -> None:
    program = "work(); told(); sys.stdout.flush(); os._exit(0)"
    given = {**os.environ, "OFFARRAY_CACHE_DIR": str(tmp_path)}
    core = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    for want in ([1, 0], [0, 1]):
        done = subprocess.run(
            [sys.executable, "-c", core + HEAD + program], env=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == want


def test_lately_is_when_something_was_stored(tmp_path: Path) -> None:
    with config(cache=True, cache_dir=tmp_path / "code"):
        assert not cache.lately()
        cache.store("key", b"code")
        assert cache.lately()
        os.utime(tmp_path / "code", (0, 0))
        assert not cache.lately()
        cache.store("other", b"code")
        assert cache.lately()
        with config(cache=False):
            assert not cache.lately()


def test_libraries_that_are_missing_are_their_users_matter() -> None:
    mathlib.opened(b"there is no such library")
    mathlib.load()
    for name in ("_ZGVdN4v_exp", "_ZGVbN2v_cos", "_ZGVno", "malloc", "no such function"):
        place = next((p for p in map(mathlib._library, mathlib._LIBRARIES) if getattr(p, name, None)), None)
        want = 0 if place is None else ctypes.cast(getattr(place, name), ctypes.c_void_p).value
        assert mathlib.symbol(name) == want


def test_the_small_module_is_sound() -> None:
    prepare._module()
