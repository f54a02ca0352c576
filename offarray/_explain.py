"""`explain`: what an evaluation would do, as text; nothing is evaluated.

in: handles; out: the plan that offarray/_evaluate.py would carry out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import _evaluate
from ._array import ndarray
from ._record import current
from ._scalar import KINDS
from ._site import line
from .fusion import tape
from .fusion.memory import Liveness
from .fusion.node import CONST, FOLD, IOTA, PENDING, READ, UPDATE, Node
from .fusion.plan import Plan, Step, pending_order, plan

_LINES = 12  # lines of the program that are listed for one kernel


def explain(*arrays: Any) -> str:
    """Tell what evaluating arrays together would do: the kernels, what each fuses, and the reason of every cut.

    Parameters
    ----------
    *arrays : ndarray or scalar
        What would be evaluated; arrays in memory and anything else need nothing.

    Returns
    -------
    str
        One paragraph for each kernel: the shape it runs over, what it reads and writes, and its operations by line of
        the program.

    Examples
    --------
    >>> import offarray as np
    >>> x = np.linspace(0.0, 1.0, 100_000)
    >>> print(np.explain(np.sqrt(x) * 2.0))  # doctest: +SKIP
    1 kernel
    """
    with _evaluate.lock:
        wanted: list[Node] = []
        for x in arrays:
            handle = x._handle if type(x) in KINDS else x
            if type(handle) is ndarray and handle._at is not True:
                node = current(handle)
                if node.state == PENDING and not any(node is w for w in wanted):
                    wanted.append(node)
        if not wanted:
            return "in memory: nothing to evaluate"
        liveness = Liveness(wanted, pending_order(wanted), tape.taped())
        done = plan(wanted, liveness.order, liveness.live)
    steps = [step for step in done.steps if 0 not in step.shape]
    parts = [f"{len(steps)} kernel{'s' if len(steps) != 1 else ''}"]
    parts += ["\n".join(told(number, step, done)) for number, step in enumerate(steps, 1)]
    return "\n\n".join(parts)


def _inside(step: Step, done: Plan) -> tuple[list[Node], list[Node]]:
    """Nodes computed by a step, producers first, and the nodes in memory that it reads."""
    members = {id(node) for node in step.outputs}
    stack, read = list(step.outputs), {}
    while stack:
        for source in stack.pop().src:
            if id(source) in members:
                continue
            if source.state != PENDING or id(source) in done.stored:
                if source.kind != CONST:
                    read[id(source)] = source
            else:
                members.add(id(source))
                stack.append(source)
    return [node for node in done.order if id(node) in members], list(read.values())


def _array(node: Node) -> str:
    shape = "x".join(map(str, node.shape)) or "scalar"
    return f"{node.dtype.name} {shape}"


def _bytes(nodes: list[Node]) -> int:
    return sum(node.arg.nbytes if isinstance(node.arg, numpy.ndarray) else node.nbytes for node in nodes)


def told(number: int, step: Step, done: Plan) -> list[str]:
    """Lines on one kernel of a plan: what it runs over, reads and writes, why it ends, and what it fuses."""
    members, read = _inside(step, done)
    over = max((node.shape for node in members), key=math.prod)
    lines = [f"kernel {number} over {'x'.join(map(str, over)) or 'one element'}"]
    if read:
        lines.append(f"  reads  {', '.join(_array(node) for node in read)}: {_bytes(read):,} bytes")
    written = list(step.outputs)
    lines.append(f"  writes {', '.join(_array(node) for node in written)}: {_bytes(written):,} bytes")
    reasons = {id(cut.node): cut.reason for cut in done.cuts}
    for node in written:
        if id(node) in reasons:
            lines.append(f"  cut after {_name(node)} at {_where(node)}: {reasons[id(node)]}")
    places: dict[str, list[str]] = {}
    for node in members:
        if node.kind not in (READ, CONST, IOTA) and node.op != "cast":
            places.setdefault(_where(node), []).append(_name(node))
    shown = [f"  {place}: {', '.join(names)}" for place, names in places.items()]
    more = len(shown) - _LINES
    return lines + shown[:_LINES] + ([f"  ... and {more} more lines"] if more > 0 else [])


def graph(order: list[Node]) -> list[str]:
    """Lines on pending nodes, one for each: its number, what it is, and where its operands come from."""
    number = {id(node): f"n{n}" for n, node in enumerate(order)}
    found = []
    for n, node in enumerate(order):
        if node.kind == CONST:
            found.append(f"n{n} = {node.dtype.name} {node.arg}")
            continue
        operands = ", ".join(number.get(id(source)) or f"memory {_array(source)}" for source in node.src)
        found.append(f"n{n} = {_name(node)}({operands}) {_array(node)} at {_where(node)}")
    return found


def _name(node: Node) -> str:
    if node.kind == FOLD:
        return f"{'fold' if node.arg[2] == 'last' else 'scan'} {node.op}"
    return "write" if node.kind == UPDATE else node.op or "read"


def _where(node: Node) -> str:
    """The line that recorded a node."""
    if node.site is None:
        return "an unknown line"
    found = line(node.site)
    return f"{found.filename.rpartition('/')[2]}:{found.lineno}"
