"""Replay: a graph that was evaluated before runs again without planning or lowering.

in: the pending graph below the roots; out: a `Recipe` found under a key that holds everything
planning looks at: topology by first visit, operations, types, shapes, views, who is alive, which memory may be taken
over. Values of scalars and addresses are not in it; they are filled in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..runtime import program, trace
from ..runtime.buffer import Buffer, allocate
from ..runtime.config import settings
from ..runtime.program import Launch, Prepared
from .lower import Lowered, scalar_words
from .memory import _BASE, Outputs, _counts
from .node import CONST, CONSUMED, FAILED, PENDING, READY, RUNNING, UPDATE, Node
from .plan import Plan

Key = tuple[Any, ...]

LIMIT = 4096  # recipes kept


SPAN = 1 << 24  # numbers that one look at a graph may give; the upper half counts the leaves
HALF = SPAN >> 1

_base = SPAN  # the number of the first node found by the next look; what is lower is from earlier ones


class Graph:
    """The pending graph below some roots, by first visit, and what its key is made of.

    Attributes
    ----------
    order, leaves : list of Node
        Pending nodes, and nodes in memory that they read.
    """

    __slots__ = ("order", "leaves", "uses", "reads", "parts")

    def __init__(self) -> None:
        self.order: list[Node] = []
        self.leaves: list[Node] = []
        self.uses: list[int] = []  # references to each pending node from roots and graph
        self.reads: list[int] = []  # the same of each leaf
        self.parts: list[Any] = []


def scan(roots: list[Node]) -> Graph | None:
    """Look at the pending graph below `roots`; None if something there has failed."""
    global _base
    base = _base
    _base = base + SPAN  # at once: an interrupted look leaves no number that the next could mistake for its own
    graph = Graph()
    order, leaves, uses, reads, parts = graph.order, graph.leaves, graph.uses, graph.reads, graph.parts
    stack = roots[::-1]
    while stack:
        node = stack.pop()
        number = node.number - base
        if number >= 0:
            parts.append(-number)
            if number < HALF:
                uses[number - 1] += 1
            else:
                reads[number - HALF] += 1
            continue
        state = node.state
        if state == PENDING:
            order.append(node)
            uses.append(1)
            node.number = base + len(order)
            kind = node.kind
            if kind == CONST:
                parts.append(node.dtype)
            else:
                sources = node.src
                parts += (
                    kind, node.op, node.dtype, node.fault, node.shape, node.arg, node.demanded > 0, len(sources)
                )  # fmt: skip
                stack += sources
        elif state == READY:
            node.number = base + HALF + len(leaves)
            leaves.append(node)
            reads.append(1)
            parts += (node.shape, node.dtype)
        else:
            return None
    return graph


def key_of(graph: Graph, place: str) -> Key | None:
    """The key of a graph evaluated on the device `place`, or None where memory is seen under two names."""
    parts = graph.parts
    live = bit = 1
    for found, used, node in zip(_counts(graph.order), graph.uses, graph.order, strict=True):
        bit <<= 1
        if found - used - node.taped > _BASE and node.kind != CONST:
            live |= bit
    parts += (place, settings.donate, live)
    buffers = set()
    for found, used, node in zip(_counts(graph.leaves), graph.reads, graph.leaves, strict=True):
        buffer = node.buffer
        if buffer is None or id(buffer) in buffers:
            return None
        buffers.add(id(buffer))
        free = (
            found - used - node.taped <= _BASE
            and not buffer.shared
            and buffer.writeable
            and buffer.nbytes == node.nbytes
        )
        parts += (free, node.kind == UPDATE, buffer.nbytes)
    return tuple(parts)


class _Output(NamedTuple):
    node: int  # position in the order
    nbytes: int
    donor: int | None  # number of the node whose memory it takes; None for new memory


MADE, ORDER, LEAVES = range(3)


class Stage(NamedTuple):
    """One step: its launch, with the words that scalars fill."""

    launch: Prepared
    sources: tuple[tuple[int, int], ...]  # by slot: whose buffer it is, as position among the outputs, order or leaves
    scalars: tuple[tuple[int, str, int], ...]  # (word, dtype, position of the constant)
    outputs: tuple[_Output, ...]
    faults: tuple[int, ...]


class Recipe(NamedTuple):
    """Everything that evaluating one kind of graph does."""

    stages: tuple[Stage, ...]
    lingering: tuple[int, ...]
    cuts: int


recipes: dict[Key, Recipe] = {}


class Recorder:
    """Writes down the steps of an evaluation that is planned afresh."""

    def __init__(self, graph: Graph) -> None:
        self.number = {id(node): n for n, node in enumerate(graph.order)}
        self.number.update((id(leaf), -1 - n) for n, leaf in enumerate(graph.leaves))
        self.owner: dict[int, int] = {id(leaf.buffer): -1 - n for n, leaf in enumerate(graph.leaves)}
        self.keep: list[Any] = [leaf.buffer for leaf in graph.leaves]  # ids stay unique while they are keys
        self.stages: list[Stage] | None = []
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
        if not outputs.plain or any(node.kind == UPDATE for node in outputs.step.outputs):
            self.stages = None  # partial writes are planned each time
            return
        donors = {id(d.buffer): self.number.get(id(d)) for d in outputs.taken}
        made = []
        for node, buffer in zip(outputs.step.outputs, outputs.buffers, strict=True):
            made.append(_Output(self.number[id(node)], node.nbytes, donors.get(id(buffer))))
            self.owner[id(buffer)] = self.number[id(node)]
            self.keep.append(buffer)
        mine = [output.node for output in made]
        sources = tuple(_source(self.owner[id(b)], mine) for b in buffers)
        scalars = tuple(
            (word, dtype, self.number[id(node)]) for word, dtype, node in lowered.scalars if id(node) in self.number
        )
        faults = tuple(self.number[id(node)] for node in lowered.faults)
        self.stages.append(Stage(Prepared(launch), sources, scalars, tuple(made), faults))

    def finish(self, key: Key) -> None:
        """Keep what was taken down under `key`."""
        if self.stages is not None:
            if len(recipes) >= LIMIT:
                recipes.clear()
            recipes[key] = Recipe(tuple(self.stages), self.lingering, self.cuts)


def _source(number: int, mine: list[int]) -> tuple[int, int]:
    if number < 0:
        return LEAVES, -1 - number
    return (MADE, mine.index(number)) if number in mine else (ORDER, number)


def run(
    recipe: Recipe, graph: Graph, faults: list[tuple[Node, int]], consumed: list[Node],
    commit: Callable[[Node, Buffer], None],
) -> None:  # fmt: skip
    """Evaluate a graph by its recipe."""
    order, leaves = graph.order, graph.leaves
    for position in recipe.lingering:
        order[position].demanded += 1
    if recipe.cuts:
        trace.count("cuts", recipe.cuts)
    for stage in recipe.stages:
        _stage(stage, order, leaves, faults, consumed, commit)


def _stage(
    stage: Stage, order: list[Node], leaves: list[Node], faults: list[tuple[Node, int]], consumed: list[Node],
    commit: Callable[[Node, Buffer], None],
) -> None:  # fmt: skip
    made: list[Any] = []
    nodes: list[Node] = []
    taken: list[Node] = []
    for position, nbytes, donor in stage.outputs:
        nodes.append(order[position])
        if donor is None:
            made.append(allocate(nbytes))
        else:
            giver = leaves[-1 - donor] if donor < 0 else order[donor]
            made.append(giver.buffer)
            taken.append(giver)
    tables = made, order, leaves
    slots = [made[n] if table == MADE else tables[table][n].buffer for table, n in stage.sources]
    scalars = [pair for word, dtype, n in stage.scalars for pair in _bits(word, dtype, order[n].arg)]
    for node in nodes:
        node.state = RUNNING
    begun = True
    try:
        found = program.launch(stage.launch, slots, scalars)
    except BaseException as error:
        begun = getattr(error, "begun", True)
        for node in nodes:
            node.state, node.error = (FAILED, error) if taken and begun else (PENDING, None)
        raise
    finally:
        if begun:
            for node in taken:
                node.state, node.buffer = CONSUMED, None
            consumed += taken
    for node, buffer in zip(nodes, made, strict=True):
        commit(node, buffer)
    if any(found):
        faults += [(order[p], bits) for p, bits in zip(stage.faults, found, strict=False) if bits]


def _bits(word: int, dtype: str, value: Any) -> list[tuple[int, int]]:
    """The words of a scalar argument, with their numbers, as bits."""
    return list(enumerate(program.pack(scalar_words(dtype, value)), word))
