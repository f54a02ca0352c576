"""Recipes on disk: a graph that another process evaluated at its beginning is neither planned nor lowered here.

in: a graph and its key (scan.py) for which there is no recipe (replay.py); out: its recipe, whose kernels codegen finds
on disk as well.  What stands there is plain numbers and texts, under a digest of all that planning looks at and of the
files that plan, lower and launch.  Only a process' first graphs are kept, and only when it ends: a program that always
has new ones writes nothing while it runs.
"""

from __future__ import annotations

import atexit
import marshal
from typing import Any

from ..codegen.compile import PACKAGE, compile
from ..codegen.kernel import Fold, Kernel, Load, Operand, Store, Value
from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.config import settings
from ..runtime.program import Launch, Prepared
from ..runtime.target import Target
from .node import CONST
from .replay import Recipe, Recorder, Told
from .scan import Graph, Key, decided
from .stage import Output, Stage

LIMIT = 32  # graphs of one process that are looked for, and kept
FEW = 64  # nodes of one: describing more of them takes long where nothing is found

_asked = 0
_new: dict[str, tuple[list[Told], Recipe]] = {}  # what is to be kept, by its name


class _NotPlain(TypeError):
    """Something that is no number, text or tuple of such."""


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is int or kind is str or kind is float or kind is bool or value is None:
        return value
    if isinstance(value, tuple):
        return tuple([_plain(v) for v in value])
    raise _NotPlain(kind.__name__)


def name_of(graph: Graph, key: Key, place: str, target: Target) -> str | None:
    """The name under which the recipe of a graph is on disk; None for one that is not kept.

    It tells apart what the key does, by texts and positions, which mean the same in every process.
    """
    global _asked
    order, leaves = graph.order, graph.leaves
    if _asked >= LIMIT or len(order) > FEW or target.kind != "host" or not settings.cache:
        return None
    _asked += 1
    number = {id(node): n for n, node in enumerate(order)}
    number.update((id(leaf), -1 - n) for n, leaf in enumerate(leaves))
    about: list[Any] = [place, *target]
    try:
        for node in order:
            about += node.kind, node.dtype.str
            if node.kind != CONST:
                sources = [number[id(source)] for source in node.src]
                about += node.op, node.fault, node.shape, _plain(node.arg), node.demanded > 0, sources
    except _NotPlain:
        return None
    for leaf in leaves:
        about += leaf.dtype.str, leaf.shape
    return disk.digest("graph", PACKAGE, repr(about), decided(graph, key))


def load(name: str, graph: Graph, target: Target) -> Recipe | None:
    """The recipe on disk under `name`, for a graph of that name."""
    found = disk.load(name, counted=False)
    if found is None:
        return None
    try:
        stages, lingering, cuts = marshal.loads(found)
        made = tuple([_stage(target, *stage) for stage in stages])
    except (EOFError, TypeError, ValueError, LookupError) as error:
        trace.log(1, f"a recipe on disk is made anew: {error}")
        return None
    return Recipe(made, lingering, cuts, graph.kept())


def _stage(
    target: Target, key: str, kernel: Any, launch: Any, sources: Any, scalars: Any, outputs: Any, faults: Any,
    asides: Any,
) -> Stage:  # fmt: skip
    compiled = compile(_kernel(*kernel), target, key)
    made = tuple([Output(*output) for output in outputs])
    return Stage(Prepared(Launch(compiled, *launch)), sources, scalars, made, faults, asides)


_ARGS: dict[str, Any] = {"load": Load, "fold": Fold}


def _kernel(rank: int, values: Any, stores: Any, operands: Any, scalars: Any) -> Kernel:
    made = [
        Value(op, dtype, src, _ARGS[op](*arg) if op in _ARGS else arg, dom, fault)
        for op, dtype, src, arg, dom, fault in values
    ]
    return Kernel(
        rank, tuple(made), tuple([Store(*s) for s in stores]), tuple([Operand(*o) for o in operands]), scalars
    )


def note(name: str, recorder: Recorder, recipe: Recipe) -> None:
    """Keep the recipe that was taken down, when the process ends."""
    if recorder.told is not None:
        _new[name] = recorder.told, recipe


def _keep() -> None:
    for name, (told, recipe) in _new.items():
        try:
            stages = [(t.launch.compiled.key, *map(_plain, (t.kernel, t.launch[1:], *t.rest))) for t in told]
            disk.store(name, marshal.dumps((stages, _plain(recipe.lingering), recipe.cuts), 2))
        except _NotPlain as reason:
            trace.log(2, f"a recipe is not kept: {reason}")


atexit.register(_keep)
