"""Run a script with offarray in NumPy's place: `python -m offarray script.py`."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from typing import Any, NamedTuple

from ._import import run
from ._script import Job, Missing

USAGE = """\
usage: python -m offarray [options] script.py [arguments]
       python -m offarray [options] -m module [arguments]
       python -m offarray [options] -c code [arguments]
       python -m offarray doctor [--json]

Runs a NumPy script with offarray in NumPy's place.  The script and the modules beside it get offarray when they
import numpy; installed libraries keep NumPy.

`doctor` looks at this machine: versions, driver, devices, libraries, and what mends what does not work.

options:
  --report                 tell on stderr, by line of the script, what was computed, how, and why not faster
  --compare                run the script on NumPy first; show both times and how far the global arrays differ
  --settings name=value... change settings (docs/settings.md) for this run and its child processes
  --json FILE              write the report (and the comparison) to FILE as JSON
  --version                show the version
  -h, --help               show this text
"""


class Options(NamedTuple):
    """The command line, taken apart."""

    job: Job
    report: bool = False
    compare: bool = False
    json: str = ""
    settings: dict[str, str] | None = None


class UsageError(Exception):
    """The command line makes no sense."""


def parse(args: list[str]) -> Options | None:
    """Options from the arguments after `python -m offarray`; None when help or the version was asked for and shown."""
    settings: dict[str, str] = {}
    found: dict[str, Any] = {"settings": settings}
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help", "--version"):
            print(USAGE if word != "--version" else f"offarray {importlib.metadata.version('offarray')}")
            return None
        if word in ("--report", "--compare"):
            found[word[2:]] = True
        elif word.partition("=")[0] == "--json":
            found["json"] = word[7:] if "=" in word else _argument(word, rest)
        elif word == "--settings":
            while rest and (match := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", rest[0], re.DOTALL)):
                settings[match[1]] = match[2]
                rest.pop(0)
            if not settings:
                raise UsageError("--settings needs name=value")
        elif word in ("-m", "-c"):
            target = _argument(word, rest)
            return Options(Job("module" if word == "-m" else "code", target, tuple(rest)), **found)
        elif word == "--" and rest:
            return Options(Job("file", rest[0], tuple(rest[1:])), **found)
        elif word.startswith("-"):
            raise UsageError(f"no option is named {word}")
        else:
            return Options(Job("file", word, tuple(rest)), **found)
    raise UsageError("no script given")


def _argument(option: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"{option} needs an argument")
    return rest.pop(0)


def _set(settings: dict[str, str]) -> None:
    """Make `settings` hold here, and through the environment in child processes."""
    from .runtime.config import REGISTRY, config

    try:
        config(**settings)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    for name, value in settings.items():
        os.environ[REGISTRY[name].env] = value


def main(args: list[str]) -> None:
    """The command `python -m offarray`."""
    if args[:1] == ["doctor"]:
        from ._doctor import main as doctor

        sys.exit(doctor(args[1:]))
    try:
        options = parse(args)
        if options is None:
            return
        _set(options.settings or {})
        if options.report or options.compare or options.json:
            from ._report import Watch

            Watch(options.job, report=options.report, compare=options.compare, json=options.json).start()
        run(options.job)
    except UsageError as error:
        sys.stderr.write(f"{USAGE.splitlines()[0]}\nerror: {error}\n")
        sys.exit(2)
    except Missing as error:
        sys.stderr.write(f"{sys.executable}: {error}\n")
        sys.exit(2 if options and options.job.kind == "file" else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
