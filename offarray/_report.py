"""`--report`, `--json` and `--compare` of the script runner: watch a run, then tell it by line of the script.

Where time goes is sampled from outside, so a line's time is what the user waits for at that line, evaluations that it
sets off included.  What was computed comes from the counters and events of `runtime.trace`.
"""

from __future__ import annotations

import atexit
import collections
import dataclasses
import json
import linecache
import os
import sys
import threading
import time
import types
from typing import Any, TextIO

from . import _compare
from ._expect import reason
from ._import import Reach
from ._script import Job, folders
from .codegen.compile import _known as made_kernels
from .runtime import pool, trace

_PERIOD = 0.001  # seconds between samples
_SHOWN = 40  # lines of the script in the printed report
_WIDTH = 120

Site = tuple[types.CodeType, int]  # code object and instruction offset, the beginning of a recorded site
Place = tuple[str, int]  # file and line


def place_of(site: Any) -> Place:
    """File and line of a site; ("", 0) where it is not known."""
    if site is None:
        return "", 0
    code, offset = site[:2]
    for start, end, line in code.co_lines():
        if start <= offset < end and line:
            return code.co_filename, line
    return code.co_filename, code.co_firstlineno


@dataclasses.dataclass
class Line:
    """What happened at one line of the script."""

    file: str
    line: int
    seconds: float = 0.0
    operations: int = 0
    kernels: int = 0
    kernel_seconds: float = 0.0
    nbytes: int = 0
    compiles: int = 0
    compile_seconds: float = 0.0
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    cuts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    fallbacks: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    libraries: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def add(self, event: trace.Event) -> None:
        """Count one event."""
        fields = event.fields
        if event.kind == "kernel":
            self.kernels += 1
            self.kernel_seconds += fields.get("seconds", 0.0)
            self.nbytes += fields.get("nbytes", 0)
        elif event.kind == "operation":
            self.operations += 1
        elif event.kind == "cut":
            self.cuts[reason(event)] += 1
        elif event.kind == "fallback":
            self.fallbacks[reason(event)] += 1
        elif event.kind == "library":
            self.libraries[reason(event)] += 1
            self.nbytes += fields.get("nbytes", 0)
        elif event.kind == "h2d_bytes":
            self.h2d_bytes += fields["nbytes"]
        elif event.kind == "d2h_bytes":
            self.d2h_bytes += fields["nbytes"]

    @property
    def text(self) -> str:
        """The source line."""
        return linecache.getline(self.file, self.line).strip()

    def told(self) -> dict[str, Any]:
        """The line as plain data."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        reasons = {name: dict(plain[name]) for name in ("cuts", "fallbacks", "libraries")}
        return {**plain, **reasons, "text": self.text}


class _Sampler:
    """Looks every millisecond at which line of the script the main thread is."""

    def __init__(self, reach: Reach, code: bool) -> None:
        self.reach = reach
        self.found: dict[Site, float] = {}
        self.elsewhere = 0.0
        self._ours: dict[str, bool] = {"<string>": code}  # libraries make functions of that name
        self._main = threading.main_thread().ident
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start looking."""
        self._over.clear()
        self._thread = threading.Thread(target=self._run, name="offarray report", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking; also before a fork, which a second thread would disturb."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        before = time.perf_counter()
        while not self._over.wait(_PERIOD):
            now = time.perf_counter()
            frame = sys._current_frames().get(self._main or 0)
            site = self._site(frame)
            del frame
            if site is None:
                self.elsewhere += now - before
            else:
                self.found[site] = self.found.get(site, 0.0) + now - before
            before = now

    def _site(self, frame: types.FrameType | None) -> Site | None:
        while frame is not None:
            name = frame.f_code.co_filename
            if name not in self._ours:
                self._ours[name] = not name.startswith("<") and name in self.reach
            if self._ours[name]:
                return frame.f_code, frame.f_lasti
            frame = frame.f_back
        return None


class Watch:
    """Watches the run of `job` in this process, from `start` to the exit of the interpreter."""

    def __init__(self, job: Job, *, report: bool, compare: bool, json: str) -> None:
        self.job = job
        self.report = report
        self.compare = compare
        self.json = json
        self.sampler = _Sampler(Reach(folders(job)), job.kind == "code")
        self.oracle: _compare.Oracle | None = None
        self._began = 0.0
        self._pid = os.getpid()

    def start(self) -> None:
        """Begin to watch; with `compare`, first run the script on NumPy."""
        if self.compare:
            self.oracle = _compare.oracle(self.job)
        if self.report or self.json:
            os.register_at_fork(before=self.sampler.stop, after_in_parent=self._resume)
            self.sampler.start()
        trace.record(True)
        trace.reset()
        atexit.register(self._finish)
        self._began = time.perf_counter()

    def _resume(self) -> None:
        if self._began and trace.events is not None:
            self.sampler.start()

    def _finish(self) -> None:
        if os.getpid() != self._pid:  # a forked child that ends by itself
            return
        seconds = time.perf_counter() - self._began
        self.sampler.stop()
        counters, events = trace.stats(), trace.record(False) or []
        told = summary(self.job.name, seconds, counters, events, self.sampler)
        if self.oracle is not None:
            told["compare"] = _compare.differences(self.oracle, seconds, vars(sys.modules["__main__"]))
        if self.json:
            with open(self.json, "w") as file:
                json.dump(told, file, indent=1)
        if self.report:
            show(told, sys.stderr)
        if self.compare:
            _compare.show(told["compare"], sys.stderr)


def _peak_memory() -> int:
    import resource  # not on every system that Python runs on, so not at the top

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def lines_of(events: list[trace.Event], sampled: dict[Site, float], built: dict[str, float]) -> list[Line]:
    """Events and samples gathered by line, in the order of files and lines.

    `built` tells how long it took to make each kernel ready; the line of its first launch bears it.
    """
    lines: dict[Place, Line] = {}
    left = dict(built)

    def line(site: Any) -> Line:
        place = place_of(site)
        if place not in lines:
            lines[place] = Line(*place)
        return lines[place]

    for site, seconds in sampled.items():
        line(site).seconds += seconds
    unplaced: list[trace.Event] = []  # launches, told before the step that they belong to

    def place(site: Any) -> None:
        for launch in unplaced:
            found = line(site)
            found.add(launch)
            if launch.fields["key"] in left:
                found.compiles += 1
                found.compile_seconds += left.pop(launch.fields["key"])
        unplaced.clear()

    for event in events:
        if event.kind == "kernel" and event.site is None:
            unplaced.append(event)
            continue
        if event.kind == "step":
            place(event.site)
        line(event.site).add(event)
    place(None)
    return [lines[place] for place in sorted(lines)]


def summary(
    script: str, seconds: float, counters: dict[str, int], events: list[trace.Event], sampler: _Sampler
) -> dict[str, Any]:
    """The report as plain data."""
    built = {compiled.key: compiled.build_ms / 1e3 for compiled in made_kernels.values()}
    lines = lines_of(events, sampler.found, built)
    made = counters["kernel_bytes"] + counters["library_bytes"]
    every = made + counters["host_bytes"] + counters.get("eager_bytes", 0)
    totals: dict[str, Any] = {
        **counters,
        "compile_seconds": sum(line.compile_seconds for line in lines),
        "kernel_seconds": sum(line.kernel_seconds for line in lines),
        "share": made / every if every else None,
        "peak_bytes": _peak_memory(),
        "array_bytes": pool.stats()["live"],
        "start": "cold" if counters["compiles"] else "warm",
    }
    shown = [line.told() for line in lines]
    return {"script": script, "seconds": seconds, "totals": totals, "lines": shown, "elsewhere": sampler.elsewhere}


def size(nbytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 100 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


_COLUMNS = f"{'time':>9} {'operations':>10} {'kernels':>8} {'bytes':>9} {'made ready':>14}"


def _row(line: dict[str, Any]) -> str:
    where = f"{os.path.basename(line['file'])}:{line['line']}" if line["file"] else "(no line)"
    compiled = f"{line['compiles']} in {line['compile_seconds'] * 1e3:.0f} ms" if line["compiles"] else ""
    left = _clip(f"{where:<22} {line['text']}", _WIDTH - len(_COLUMNS) - 2)
    cells = (
        f"{line['seconds']:>7.3f} s {line['operations'] or '':>10} {line['kernels'] or '':>8} "
        f"{size(line['nbytes']) if line['nbytes'] else '':>9} {compiled:>14}"
    )
    return f"{left:<{_WIDTH - len(_COLUMNS) - 2}}  {cells}".rstrip()


def _reasons(line: dict[str, Any]) -> list[str]:
    kinds = (("cut", "cuts"), ("fallback", "fallbacks"), ("library step", "libraries"))
    sent, fetched = line["h2d_bytes"], line["d2h_bytes"]
    moved = [f"      transfers: {size(sent)} to the device, {size(fetched)} back"] if sent or fetched else []
    return moved + [
        _clip(f"      {kind}{f' {n} times' if n > 1 else ''}: {reason}", _WIDTH)
        for kind, key in kinds
        for reason, n in line[key].items()
    ]


_EVENTS = ("operations", "kernels", "compiles", "h2d_bytes", "d2h_bytes", "cuts", "fallbacks", "libraries")


def _has_events(line: dict[str, Any]) -> bool:
    return any(line[key] for key in _EVENTS)


def show(told: dict[str, Any], out: TextIO) -> None:
    """Print the report."""
    totals, seconds = told["totals"], told["seconds"]
    lines = [line for line in told["lines"] if _has_events(line) or line["seconds"] >= 0.005 * seconds]
    least = sorted((line["seconds"] for line in lines), reverse=True)[_SHOWN - 1 : _SHOWN]
    kept = [line for line in lines if not least or line["seconds"] >= least[0]][:_SHOWN]
    out.write(f"\noffarray: {told['script']}, {seconds:.3f} s\n")
    out.write(f"{'line':<{_WIDTH - len(_COLUMNS) - 2}}  {_COLUMNS}\n")
    for line in kept:
        out.write("\n".join([_row(line), *_reasons(line)]) + "\n")
    if len(kept) < len(lines):
        out.write(f"... and {len(lines) - len(kept)} lines that took less\n")
    _show_totals(totals, out)


def _show_totals(totals: dict[str, Any], out: TextIO) -> None:
    share = (
        "" if totals["share"] is None else f", {100 * totals['share']:.1f} % of array bytes by kernels and libraries"
    )
    out.write(
        f"{totals['operations']} operations recorded, {totals['kernels']} kernels in {totals['kernel_seconds']:.3f} s, "
        f"{totals['evaluations']} evaluations, {totals['cuts']} cuts, {totals['fallbacks']} fallbacks\n"
        f"bytes: kernels {size(totals['kernel_bytes'])}, libraries {size(totals['library_bytes'])}, "
        f"host {size(totals['host_bytes'])}, small work {size(totals['eager_bytes'])}{share}\n"
        f"{totals['start']} start: {totals['compiles']} kernels compiled, "
        f"{totals['cache_hits']} from disk, in {totals['compile_seconds']:.3f} s; "
        f"peak memory {size(totals['peak_bytes'])}\n"
    )
    if totals["h2d_bytes"] or totals["d2h_bytes"] or totals["evictions"]:
        out.write(
            f"transfers: {size(totals['h2d_bytes'])} to the device, {size(totals['d2h_bytes'])} back; "
            f"{totals['evictions']} arrays made room, {totals['split_steps']} steps in pieces\n"
        )
