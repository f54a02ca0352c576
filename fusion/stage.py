"""Stages: the steps of a recipe, run on the nodes of another graph of the same kind.

in: what `Recorder` has taken down; out: launches, and nodes in memory.  `stage.pyx` is the same in C.
"""

from __future__ import annotations

from typing import Any

import numpy

from ..runtime import program
from ..runtime.program import Prepared
from ..runtime.tuples import NamedTuple
from .lower import scalar_words
from .memory import Move
from .node import CONSUMED, FAILED, PENDING, RUNNING, UPDATE, Node, commit, renew
from .view import View


class Output(NamedTuple):
    """Where a value of a step goes."""

    node: int  # position in the order
    nbytes: int
    donor: int | None  # number of the node whose memory it takes; None for new memory
    update: bool  # whether it only writes part of that memory, which stays the donor's


class Copy(NamedTuple):
    """A copy before or after the launch; see `memory.Move`."""

    source: tuple[int, int]
    target: tuple[int, int]
    base: int | None  # number of the node
    view: View
    dtype: numpy.dtype[Any]
    boxed: Any


MADE, ORDER, LEAVES = range(3)


class Stage(NamedTuple):
    """One step: its launch, with the words that scalars fill."""

    launch: Prepared
    sources: tuple[tuple[int, int], ...]  # by slot: whose buffer it is, as position among the outputs, order or leaves
    scalars: tuple[tuple[int, str, int], ...]  # (word, dtype, position of the constant)
    outputs: tuple[Output, ...]
    faults: tuple[int, ...]
    asides: tuple[int, ...] = ()  # bytes of memory that stands behind the outputs' in MADE
    before: tuple[Copy, ...] = ()
    after: tuple[Copy, ...] = ()


def perform(
    stage: Stage, order: list[Node], leaves: list[Node], faults: list[tuple[Node, int]], consumed: list[Node]
) -> None:
    """Run one step on the nodes of a graph; what found faults goes to `faults`, what was overwritten to `consumed`."""
    made: list[Any] = []
    nodes: list[Node] = []
    taken: list[Node] = []
    update = False
    for position, nbytes, donor, part in stage.outputs:
        node = order[position]
        nodes.append(node)
        update = update or node.kind == UPDATE
        if donor is None:
            made.append(program.room(stage.launch, nbytes))
        else:
            giver = leaves[-1 - donor] if donor < 0 else order[donor]
            made.append(giver.buffer)
            if not part:
                taken.append(giver)
    if stage.asides:
        made += [program.room(stage.launch, nbytes) for nbytes in stage.asides]
    tables = made, order, leaves
    scalars = [pair for word, dtype, n in stage.scalars for pair in _bits(word, dtype, order[n].arg)]
    for node in nodes:
        node.state = RUNNING
    begun = True
    try:
        for copy in stage.before:
            _copy(stage, copy, tables)
        slots = [made[n] if table == MADE else tables[table][n].buffer for table, n in stage.sources]
        found = program.launch(stage.launch, slots, scalars)
        for copy in stage.after:
            _copy(stage, copy, tables)
    except BaseException as error:
        begun = getattr(error, "begun", True)
        lost = begun and (update or bool(taken))
        for node in nodes:
            node.state, node.error = (FAILED, error) if lost else (PENDING, None)
        raise
    finally:
        if begun:
            for node in taken:
                node.state, node.buffer = CONSUMED, None
            consumed += taken
    for node, buffer in zip(nodes, made, strict=False):
        if update and node.kind == UPDATE and buffer.device is not None:
            renew(node.src[0])  # what the host has seen of its memory is out of date
        commit(node, buffer)
    if not isinstance(found, bytes):
        found.about(order[p] for p in stage.faults)
    elif any(found):
        faults += [(order[p], bits) for p, bits in zip(stage.faults, found, strict=False) if bits]


def _buffer(tables: Any, where: tuple[int, int]) -> Any:
    table, number = where
    return tables[MADE][number] if table == MADE else tables[table][number].buffer


def _copy(stage: Stage, copy: Copy, tables: Any) -> None:
    shot = stage.launch.shot
    if shot and copy.base is not None and copy.boxed is None:
        if shot.duplicate(_buffer(tables, copy.source), _buffer(tables, copy.target)):
            return
    base = None if copy.base is None else tables[LEAVES][-1 - copy.base] if copy.base < 0 else tables[ORDER][copy.base]
    Move(_buffer(tables, copy.source), _buffer(tables, copy.target), base, copy.view, copy.dtype, copy.boxed).run()


def _bits(word: int, dtype: str, value: Any) -> list[tuple[int, int]]:
    """The words of a scalar argument, with their numbers, as bits."""
    return list(enumerate(program.pack(scalar_words(dtype, value)), word))
