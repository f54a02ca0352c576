"""Replay: a graph that was evaluated before runs again without planning or lowering.

in: a graph and its key (scan.py); out: a `Recipe`, whose steps are run with values of scalars and addresses filled in.
"""

from __future__ import annotations

from typing import Any

from ..codegen.kernel import Kernel
from ..runtime import trace
from ..runtime.buffer import Buffer
from ..runtime.program import Launch, Prepared
from ..runtime.tuples import NamedTuple
from .lower import Lowered
from .memory import Move, Outputs
from .node import UPDATE, Node
from .plan import Plan
from .scan import Graph, Key
from .scan import key_of as key_of
from .scan import scan as scan
from .stage import LEAVES, MADE, ORDER, Copy, Output, Stage, perform

LIMIT = 4096  # recipes kept


class Recipe(NamedTuple):
    """Everything that evaluating one kind of graph does."""

    stages: tuple[Stage, ...]
    lingering: tuple[int, ...]
    cuts: int
    kept: Any  # what the key names by address


recipes: dict[Key, Recipe] = {}


class Told(NamedTuple):
    """What a stage was made of."""

    kernel: Kernel
    launch: Launch
    rest: tuple[Any, ...]  # the stage's sources, scalars, outputs, faults, asides


class Recorder:
    """Writes down the steps of an evaluation that is planned afresh."""

    def __init__(self, graph: Graph) -> None:
        self.number = {id(node): n for n, node in enumerate(graph.order)}
        self.number.update((id(leaf), -1 - n) for n, leaf in enumerate(graph.leaves))
        self.owner: dict[int, int] = {id(leaf.buffer): -1 - n for n, leaf in enumerate(graph.leaves)}
        self.keep: list[Any] = [leaf.buffer for leaf in graph.leaves]  # ids stay unique while they are keys
        self.stages: list[Stage] | None = []
        self.told: list[Told] | None = []  # None where a stage has copies
        self.kept = graph.kept()
        self.lingering: tuple[int, ...] = ()
        self.cuts = 0

    def planned(self, plan: Plan, lingering: set[int]) -> None:
        """Take down what comes before the steps."""
        self.lingering = tuple(n for key, n in self.number.items() if key in lingering)
        self.cuts = len(plan.cuts)

    def step(self, launch: Launch, buffers: list[Buffer], lowered: Lowered, outputs: Outputs) -> None:
        """Take down one step, before its donors lose their buffers."""
        if self.stages is None:
            return
        donors = {id(d.buffer): self.number.get(id(d)) for d in outputs.taken}
        made = []
        for node, buffer in zip(outputs.step.outputs, outputs.buffers, strict=True):
            number = self.number[id(node)]
            if node.kind == UPDATE and buffer is node.src[0].buffer:
                made.append(Output(number, buffer.nbytes, self.number[id(node.src[0])], True))
            else:
                made.append(Output(number, buffer.nbytes, donors.get(id(buffer)), False))
                self.owner[id(buffer)] = number
            self.keep.append(buffer)
        places = {id(b): (MADE, len(made) + n) for n, b in enumerate(outputs.asides)}
        mine = [output.node for output in made]
        places.update(
            (id(b), _source(self.owner[id(b)], mine)) for b in [*buffers, *outputs.buffers] if id(b) not in places
        )
        moves = [[self._copy(move, places) for move in moves] for moves in (outputs.before, outputs.after)]
        sources = tuple(places[id(b)] for b in buffers)
        scalars = tuple(
            (word, dtype, self.number[id(node)]) for word, dtype, node in lowered.scalars if id(node) in self.number
        )
        faults = tuple(self.number[id(node)] for node in lowered.faults)
        asides = tuple(buffer.nbytes for buffer in outputs.asides)
        rest = sources, scalars, tuple(made), faults, asides
        self.stages.append(Stage(Prepared(launch), *rest, tuple(moves[0]), tuple(moves[1])))
        if any(moves):
            self.told = None
        elif self.told is not None:
            self.told.append(Told(lowered.kernel, launch, rest))

    def _copy(self, move: Move, places: dict[int, tuple[int, int]]) -> Copy:
        number = None if move.base is None else self.number[id(move.base)]
        source = places.get(id(move.source)) or _source(self.owner[id(move.source)], [])
        return Copy(source, places[id(move.target)], number, move.view, move.dtype, move.boxed)

    def finish(self, key: Key) -> Recipe | None:
        """Keep what was taken down under `key`."""
        if self.stages is None:
            return None
        recipe = Recipe(tuple(self.stages), self.lingering, self.cuts, self.kept)
        keep(key, recipe)
        return recipe


def keep(key: Key, recipe: Recipe) -> None:
    """Have a recipe for graphs of the key from now on."""
    if len(recipes) >= LIMIT:
        recipes.clear()
    recipes[key] = recipe


def _source(number: int, mine: list[int]) -> tuple[int, int]:
    if number < 0:
        return LEAVES, -1 - number
    return (MADE, mine.index(number)) if number in mine else (ORDER, number)


def run(recipe: Recipe, graph: Graph, faults: list[tuple[Node, int]], consumed: list[Node]) -> None:
    """Evaluate a graph by its recipe."""
    order, leaves = graph.order, graph.leaves
    for position in recipe.lingering:
        order[position].demanded += 1
    if recipe.cuts:
        trace.count("cuts", recipe.cuts)
    for stage in recipe.stages:
        perform(stage, order, leaves, faults, consumed)
