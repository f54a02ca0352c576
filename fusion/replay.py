"""Replay: a graph that was evaluated before runs again without planning or lowering.

in: the pending graph below the roots, with its liveness; out: a `Recipe` found under a key that holds everything
planning looks at: topology by first visit, operations, types, shapes, views, who is alive, which memory may be taken
over. Values of scalars and addresses are not in it; they are filled in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..runtime import trace
from ..runtime.buffer import Buffer, allocate
from ..runtime.config import settings
from ..runtime.program import Launch, Program, execute
from .lower import Lowered, scalar_words
from .memory import Liveness, Outputs
from .node import CONST, CONSUMED, FAILED, PENDING, RUNNING, UPDATE, Node
from .plan import Plan

Key = tuple[Any, ...]

LIMIT = 4096  # recipes kept


def key_of(roots: list[Node], liveness: Liveness) -> Key | None:
    """The key of a graph, or None where memory is seen under two names."""
    number: dict[int, int] = {}
    outside = liveness.outside
    parts: list[Any] = [settings.device, settings.donate]
    add = parts.append
    buffers: set[int] = set()
    for position, leaf in enumerate(liveness.leaves):
        key = id(leaf)
        number[key] = -1 - position
        buffer = leaf.buffer
        if buffer is None or id(buffer) in buffers:
            return None
        buffers.add(id(buffer))
        free = outside[key] <= 0 and not buffer.shared and buffer.writeable and buffer.nbytes == leaf.nbytes
        add((leaf.dtype.char, leaf.shape, free, leaf.kind == UPDATE, buffer.nbytes))
    add(None)
    for position, node in enumerate(liveness.order):
        key = id(node)
        number[key] = position
        kind = node.kind
        if kind == CONST:
            add((kind, node.dtype.char))
            continue
        add(
            (
                kind, node.op, node.dtype.char, node.fault, node.shape, node.arg, outside[key] > 0, node.demanded > 0,
                *[number[id(s)] for s in node.src],
            )
        )  # fmt: skip
    add(None)
    parts.extend(number[id(root)] for root in roots)
    return tuple(parts)


class _Output(NamedTuple):
    node: int  # position in the order
    nbytes: int
    donor: int | None  # number of the node whose memory it takes; None for new memory


class Stage(NamedTuple):
    """One step: its launch, with the words that scalars fill."""

    launch: Launch
    sources: tuple[int, ...]  # by slot: number of the node whose buffer it is
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

    def __init__(self, liveness: Liveness, plan: Plan, lingering: set[int]) -> None:
        self.number = {id(node): n for n, node in enumerate(liveness.order)}
        self.number.update((id(leaf), -1 - n) for n, leaf in enumerate(liveness.leaves))
        self.owner: dict[int, int] = {id(leaf.buffer): -1 - n for n, leaf in enumerate(liveness.leaves)}
        self.keep: list[Any] = [leaf.buffer for leaf in liveness.leaves]  # ids stay unique while they are keys
        self.stages: list[Stage] | None = []
        self.lingering = tuple(n for n, node in enumerate(liveness.order) if id(node) in lingering)
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
        sources = tuple(self.owner[id(b)] for b in buffers)
        scalars = tuple(
            (word, dtype, self.number[id(node)]) for word, dtype, node in lowered.scalars if id(node) in self.number
        )
        faults = tuple(self.number[id(node)] for node in lowered.faults)
        self.stages.append(Stage(launch, sources, scalars, tuple(made), faults))

    def finish(self, key: Key) -> None:
        """Keep what was taken down under `key`."""
        if self.stages is not None:
            if len(recipes) >= LIMIT:
                recipes.clear()
            recipes[key] = Recipe(tuple(self.stages), self.lingering, self.cuts)


def run(
    recipe: Recipe, liveness: Liveness, faults: list[tuple[Node, int]], consumed: list[Node],
    commit: Callable[[Node, Buffer], None],
) -> None:  # fmt: skip
    """Evaluate a graph by its recipe."""
    order, leaves = liveness.order, liveness.leaves
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
    launch = stage.launch
    if stage.scalars:
        words = list(launch.words)
        for word, dtype, position in stage.scalars:
            values = scalar_words(dtype, order[position].arg)
            words[word : word + len(values)] = values
        launch = launch._replace(words=tuple(words))
    made: dict[int, Buffer] = {}
    taken: list[Node] = []
    for output in stage.outputs:
        if output.donor is None:
            made[output.node] = allocate(output.nbytes)
        else:
            donor = leaves[-1 - output.donor] if output.donor < 0 else order[output.donor]
            assert donor.buffer is not None
            made[output.node] = donor.buffer
            taken.append(donor)
    slots: list[Buffer | None] = []
    for number in stage.sources:
        found = made.get(number)
        slots.append(found if found is not None else (leaves[-1 - number] if number < 0 else order[number]).buffer)
    nodes = [order[output.node] for output in stage.outputs]
    for node in nodes:
        node.state = RUNNING
    try:
        found_faults = execute(Program(len(slots), (launch,)), slots)[1][0]
    except BaseException as error:
        for node in nodes:
            node.state, node.error = (FAILED, error) if taken else (PENDING, None)
        raise
    finally:
        for donor in taken:
            donor.state, donor.buffer = CONSUMED, None
        consumed += taken
    for node, output in zip(nodes, stage.outputs, strict=True):
        commit(node, made[output.node])
    if any(found_faults):
        faults += [(order[p], bits) for p, bits in zip(stage.faults, found_faults, strict=False) if bits]
