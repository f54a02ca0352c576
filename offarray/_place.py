"""Where an evaluation runs: what it would cost on each side, read off its graph.

in: the pending graph; out: the name of a device, for runtime/placement.py's model.
"""

from __future__ import annotations

from collections.abc import Sequence

from .fusion.node import CONST, FOLD, MAP, PENDING, READ, READY, Node
from .fusion.replay import Graph, scan
from .fusion.view import span
from .runtime import placement
from .runtime.placement import SMALL, Work

# What an element costs beside an addition, in those of matrix products that a processor does in the time.
_DEAR = dict.fromkeys("divide sqrt remainder fmod floor_divide reciprocal hypot cbrt".split(), 10)
_DEAR.update(dict.fromkeys("exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh".split(), 40))
_DEAR.update(
    dict.fromkeys("power arcsin arccos arctan arctan2 arcsinh arccosh arctanh logaddexp logaddexp2".split(), 80)
)


def choose(graph: Graph, wanted: Sequence[Node], looked: bool) -> str:
    """The device on which to evaluate a graph; `looked` if the host looks at the results right afterwards."""
    name = placement.where()
    if name != "auto":
        return name
    if placement.absent():
        return "cpu"
    made = sum(node.nbytes for node in wanted)
    total = made
    fixed = True
    for leaf in graph.leaves:
        buffer = leaf.buffer
        assert buffer is not None
        total += buffer.nbytes
        if buffer.device is not None and not buffer.device.host:
            if buffer.device.outside:  # others use it there; the host would have to fetch it each time
                return f"cuda:{buffer.device.device.number}"
            fixed = False
    if fixed and total <= SMALL:
        return "cpu"
    return "cuda" if placement.decide(_name(wanted[0], total), _work(graph, made, looked)) else "cpu"


def groups(wanted: list[Node], looked: bool) -> list[tuple[list[Node], str]]:
    """Roots that are evaluated together, with their device ("" where that is still to be chosen).

    Roots without a pending node in common may be better off on different sides.
    """
    if len(wanted) < 2 or placement.rates is None or placement.where() != "auto":
        return [(wanted, "")]
    parts = _apart(wanted)
    if len(parts) < 2:
        return [(wanted, "")]
    found: dict[str, list[Node]] = {}
    for part in parts:
        graph = scan(part)
        place = "cpu" if graph is None else choose(graph, part, looked)
        found.setdefault(place, []).extend(part)
    return [(some, place) for place, some in found.items()]


def _apart(wanted: list[Node]) -> list[list[Node]]:
    """Roots by the pending nodes that they have in common."""
    owner: dict[int, int] = {}  # pending node -> the first root that needs it
    leader = list(range(len(wanted)))

    def lead(n: int) -> int:
        while leader[n] != n:
            n = leader[n]
        return n

    for number, root in enumerate(wanted):
        stack = [root]
        while stack:
            node = stack.pop()
            if node.state != PENDING:
                continue
            first = owner.setdefault(id(node), number)
            if first != number:
                leader[lead(number)] = lead(first)
            elif node is root or first == number:
                stack += [s for s in node.src if id(s) not in owner or owner[id(s)] != number]
    parts: dict[int, list[Node]] = {}
    for number, root in enumerate(wanted):
        parts.setdefault(lead(number), []).append(root)
    return list(parts.values())


def _name(node: Node, total: int) -> tuple[object, ...]:
    """What recurs when a line comes round again with as much work."""
    site = node.site
    return (site[0], site[1], total.bit_length()) if site is not None else (node.op, node.shape, total.bit_length())


def _work(graph: Graph, made: int, looked: bool) -> Work:
    need: dict[int, int] = {}  # bytes of each leaf that kernels read
    reach: dict[int, tuple[int, int]] = {}  # and from where to where they lie
    flops = 0.0
    for node in graph.order:
        kind = node.kind
        if kind == CONST:
            continue
        if kind == MAP or kind == FOLD:
            flops += _DEAR.get(node.op, 1) * (node.src[0].size if kind == FOLD else node.size)
        for source in node.src:
            if source.state == READY:
                most = source.nbytes
                part, (low, high) = most, (0, most)
                if kind == READ:
                    part, (low, high) = min(most, node.nbytes), span(node.arg, node.dtype.itemsize)
                key = id(source)
                need[key] = min(most, need.get(key, 0) + part)
                first, last = reach.get(key, (low, high))
                reach[key] = min(first, low), max(last, high)
    up = down = each = 0
    for leaf in graph.leaves:
        sent, fetched, again = placement.held((leaf.buffer,))  # type: ignore[arg-type]
        low, high = reach.get(id(leaf), (0, 0))
        part = high - low
        up, down, each = up + min(sent, part), down + min(fetched, part), each + min(again, part)
    return Work(made + sum(need.values()), up, down, each, flops, made if looked else 0)
