"""Stages: the steps of a recipe, run on the nodes of another graph of the same kind.

in: what `Recorder` has taken down; out: launches, and nodes in memory.  `stage.pyx` is the same in C.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..runtime import program
from ..runtime.buffer import allocate
from ..runtime.program import Prepared
from .lower import scalar_words
from .node import CONSUMED, FAILED, PENDING, RUNNING, Node, commit


class Output(NamedTuple):
    """Where a value of a step goes."""

    node: int  # position in the order
    nbytes: int
    donor: int | None  # number of the node whose memory it takes; None for new memory


MADE, ORDER, LEAVES = range(3)


class Stage(NamedTuple):
    """One step: its launch, with the words that scalars fill."""

    launch: Prepared
    sources: tuple[tuple[int, int], ...]  # by slot: whose buffer it is, as position among the outputs, order or leaves
    scalars: tuple[tuple[int, str, int], ...]  # (word, dtype, position of the constant)
    outputs: tuple[Output, ...]
    faults: tuple[int, ...]


def perform(
    stage: Stage, order: list[Node], leaves: list[Node], faults: list[tuple[Node, int]], consumed: list[Node]
) -> None:
    """Run one step on the nodes of a graph; what found faults goes to `faults`, what was overwritten to `consumed`."""
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
