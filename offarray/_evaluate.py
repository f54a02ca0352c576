"""The pipeline on one page: pending nodes -> plan -> kernels -> compiled code -> execution.

in: nodes whose values are wanted; out: their buffers.  The only file that names all four rooms.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from . import _errstate, _place
from ._site import here
from ._site import text as line
from .codegen.compile import compile, device_target, host_target
from .codegen.kernel import text
from .fusion import kept, replay, tape
from .fusion.lower import Lowered, Pointer, lower
from .fusion.memory import Lifetimes, Liveness, Outputs, referred
from .fusion.node import CONST, CONSUMED, FAILED, PENDING, READ, READY, RUNNING, UPDATE, Node, commit, renew
from .fusion.plan import Plan, Step, pending_order, plan
from .runtime import late, placement, trace
from .runtime.buffer import Buffer, allocate, settle, unsettled
from .runtime.config import settings
from .runtime.errors import (
    CheckError,
    CompileError,
    DeviceError,
    DeviceLostError,
    LostValueError,
    MemoryLimitError,
    MovedError,
)
from .runtime.program import Grid, Launch, Program, execute
from .runtime.target import Target

lock = threading.RLock()  # plan and commit; the kernels of one evaluation run inside it
_targets: dict[str, Target] = {}
FAR = 8  # times the bytes of elements: where they span more, they are sent to a device alone
trace.locate = here


def evaluate(roots: Sequence[Node], looked: bool = False) -> None:
    """Bring the roots into memory, with as few kernels as possible; `looked` if the host looks at them next.

    Raises
    ------
    Exception
        What a failed evaluation of a root raised, or FloatingPointError where errstate asks for it.
    """
    with lock:
        if placement.lost:
            _fail_lost(roots)
        if late.used:
            late.allowed = not _errstate.immediate()
        wanted = _pending(roots)
        faults: list[tuple[Node, int]] = []
        if wanted:
            trace.counters["evaluations"] += 1
            consumed: list[Node] = []
            kernels = trace.counters["kernels"]
            try:
                order: list[Node] = []
                for some, place in _place.groups(wanted, looked):
                    part = _run(roots if some is wanted else some, some, faults, consumed, looked, place)
                    order = order + part if order else part
            except (CompileError, DeviceError, MemoryLimitError) as error:
                order = _on_host(error, roots, wanted, faults, consumed)
            if settings.debug:
                _tell(order, trace.counters["kernels"] - kernels)
            tape.passed(order)
            if unsettled:
                settle()
            if settings.check:
                _verify(consumed)
    if faults:
        _errstate.report(faults)
    if late.used:
        late.check(not late.allowed)


def _tell(order: list[Node], kernels: int) -> None:
    """What an evaluation came to, and the line that asked for it."""
    operations = sum(node.kind not in (CONST, READ) for node in order)
    trace.log(1, f"evaluation of {operations} operations by {kernels} kernels at {line(here())}")


Broken = CompileError | DeviceError | MemoryLimitError  # what a device may raise


def _on_host(
    error: Broken, roots: Sequence[Node], wanted: list[Node], faults: list[tuple[Node, int]], consumed: list[Node]
) -> list[Node]:  # fmt: skip
    """Do on the host what a device could not, if the choice is ours and nothing is gone; else raise, with the line."""
    if placement.lost:
        _fail_lost(wanted)
    open_ = [node for node in wanted if node.state != READY]
    if placement.where() == "auto" and placement.aim != "cpu" and all(node.state == PENDING for node in open_):
        trace.log(1, f"the host goes on: {error}")
        try:
            with placement.on("cpu"):
                return _run(roots, open_, faults, consumed, False) if open_ else []
        except (CompileError, DeviceError, MemoryLimitError) as other:
            error = other
    raise located(error, open_[0].site if open_ else None) from error.__cause__


def _fail_lost(roots: Sequence[Node]) -> None:
    """Fail what is, or needs, a value that was lost with a device."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.state == PENDING:
            stack += node.src
        elif node.state == READY and node.buffer is not None:
            copy = node.buffer.device
            if copy is not None and copy.lost and not copy.host:
                node.state, node.error = FAILED, LostValueError(copy.lost)
    pending_order(roots)


def located(error: Broken, site: Any) -> Broken:
    """The error of a device with the user's line."""
    text = str(_with_largest(error)) if isinstance(error, MemoryLimitError) else str(error)
    if site is None or getattr(error, "located", False):
        return error if text == str(error) else type(error)(text)
    made = type(error)(f"{text} (computing what {line(site)} asks for)")
    made.begun, made.located = getattr(error, "begun", True), True  # type: ignore[union-attr]
    return made


def _with_largest(error: MemoryLimitError) -> MemoryLimitError:
    """The error, saying who has a device's memory, which arrays take it, and where they were made."""
    from ._whos import largest  # few programs come here

    text = str(error)
    if "device has not enough memory" in text and " ours" not in text:  # of code, libraries, staging
        from .runtime import cuda, supply

        text += f": {supply.crowd(cuda.device())}"
    return MemoryLimitError(f"{text}; {largest()}".rstrip("; "))


def _pending(roots: Sequence[Node]) -> list[Node]:
    """The roots that are not in memory yet, each once; raises what a failed one raises."""
    wanted: list[Node] = []
    for node in roots:
        state = node.state
        if state == FAILED or state == RUNNING:  # nobody else runs it under this lock: it was interrupted
            raise _again(node)
        if state == PENDING:
            wanted.append(node)
    if len(wanted) > 1:
        return list({id(node): node for node in wanted}.values())
    return wanted


def _verify(consumed: list[Node]) -> None:
    """Raise CheckError if something can still ask for a value whose memory was taken over."""
    known = -1
    while known != len(tape.nodes):  # dead nodes may hang on each other
        known = len(tape.nodes)
        tape.compact(thorough=True)
    if referred(consumed):
        raise CheckError(f"the memory of a value that can still be asked for was written over: {consumed}")


def flush() -> None:
    """Evaluate everything on the tape that a handle can still ask for."""
    with lock:
        tape.compact(thorough=True)
        wanted = tape.wanted()
        if placement.lost:
            _fail_lost(wanted)
        pending_order(wanted)
        evaluate([node for node in wanted if node.state == PENDING])


def ready(x: Any) -> None:
    """Evaluate the base of a handle."""
    evaluate((x._base.node,), True)


def _again(node: Node) -> BaseException:
    if node.op == "moved":
        return MovedError(f"this array was moved at {line(node.arg)}; it is used again at {line(here())}")
    if isinstance(node.error, (DeviceLostError, LostValueError)):
        return located(LostValueError(f"the value is lost: {node.error}"), node.site)
    if isinstance(node.error, Broken):
        return located(DeviceError(f"the evaluation of this array failed earlier: {node.error}"), node.site)
    if node.error is None:
        return RuntimeError("the evaluation of this array was interrupted after its inputs had been consumed")
    return RuntimeError(f"the evaluation of this array failed earlier: {node.error!r}")


def _run(
    roots: Sequence[Node], wanted: list[Node], faults: list[tuple[Node, int]], consumed: list[Node], looked: bool,
    place: str = "",
) -> list[Node]:  # fmt: skip
    """Replay or plan, and execute; gives the nodes that were pending.

    Nodes that reported faults and nodes whose memory was taken over go to the lists.
    """
    graph = replay.scan(wanted)
    if graph is None:
        pending_order(wanted)  # what needs a failed value fails
        wanted = _pending(roots)
        graph = replay.scan(wanted)
        assert graph is not None
    placement.aim = place = place or _place.choose(graph, wanted, looked)
    key = replay.key_of(graph, place) if trace.events is None and settings.debug < 3 and not settings.check else None
    recipe, name = (replay.recipes.get(key), None) if key is not None else (None, None)
    if recipe is None and key is not None:
        recipe, name = _from_disk(graph, key, place)
    if recipe is not None:
        replay.run(recipe, graph, faults, consumed)
        return graph.order
    recorder = replay.Recorder(graph)
    del graph  # its lists would count as somebody who refers to the nodes
    order = pending_order(wanted)
    _plan(wanted, order, faults, consumed, recorder, target(place))
    if key is not None:
        recipe = recorder.finish(key)
        if recipe is not None and name is not None:
            kept.note(name, recorder, recipe)
    return order


def _from_disk(graph: replay.Graph, key: replay.Key, place: str) -> tuple[replay.Recipe | None, str | None]:
    """The recipe that another process kept, and the name under which it is on disk."""
    aim = target(place)
    name = kept.name_of(graph, key, place, aim)
    recipe = kept.load(name, graph, aim) if name is not None else None
    if recipe is not None:
        replay.keep(key, recipe)
    return recipe, name


def _plan(
    wanted: list[Node], order: list[Node], faults: list[tuple[Node, int]], consumed: list[Node],
    recorder: replay.Recorder, aim: Target,
) -> None:  # fmt: skip
    liveness = Liveness(wanted, order, tape.taped())
    done = plan(wanted, order, liveness.live)
    lifetimes = Lifetimes(liveness, done)
    recorder.planned(done, lifetimes.lingering)
    for node in order:
        if id(node) in lifetimes.lingering:
            node.demanded += 1
    trace.count("cuts", len(done.cuts))
    for cut in done.cuts:
        trace.emit("cut", cut.node.site, reason=cut.reason, op=cut.node.op)
        trace.log(3, f"cut {cut.node!r}: {cut.reason}")
    if settings.debug >= 3:
        _tell_plan(done)
    for position, step in enumerate(done.steps):
        faults += _step(step, done, lifetimes, position, consumed, recorder, aim)


def _tell_plan(done: Plan) -> None:
    """What is fused, and of which operations the graph is made."""
    from ._explain import graph, told  # asks for evaluations itself

    for number, step in enumerate(done.steps, 1):
        trace.log(3, "\n".join(told(number, step, done)))
    if settings.debug >= 5:
        trace.log(5, "graph\n  " + "\n  ".join(graph(done.order)))


def _step(
    step: Step, done: Plan, lifetimes: Lifetimes, position: int, consumed: list[Node], recorder: replay.Recorder,
    aim: Target,
) -> list[tuple[Node, int]]:  # fmt: skip
    """Execute one step and commit its outputs; gives the nodes that reported faults with their bits."""
    if 0 in step.shape:
        for node in step.outputs:
            commit(node, node.src[0].buffer if node.kind == UPDATE else allocate(node.nbytes))
        recorder.stages = None
        return []
    outputs = Outputs(step, lifetimes.donors(step, position) if settings.donate else [])
    lowered = lower(step, done, outputs.choose)
    if settings.debug >= 6:
        trace.log(6, text(lowered.kernel))
    compiled = compile(lowered.kernel, aim)
    # From here on an interruption may leave consumed memory behind: such nodes fail, and are never computed again.
    for node in step.outputs:
        node.state = RUNNING
    begun = True
    try:
        outputs.prepare()
        found = _launch(compiled, lowered, outputs, recorder)
        outputs.finish()
    except BaseException as error:
        begun = getattr(error, "begun", True)
        for node in step.outputs:
            if begun and (node.kind == UPDATE or outputs.taken):
                node.state, node.error = FAILED, error
            else:
                node.state = PENDING
        raise
    finally:
        if begun:
            for donor in outputs.taken:
                donor.state, donor.buffer = CONSUMED, None
            consumed += outputs.taken
    for node, buffer in zip(step.outputs, outputs.buffers, strict=True):
        if node.kind == UPDATE and buffer.device is not None:
            renew(node.src[0])  # what the host has seen of its memory is out of date
        commit(node, buffer)
    trace.emit("step", step.outputs[-1].site, nbytes=lowered.nbytes, values=len(lowered.kernel.values))
    return found


def _launch(compiled: Any, lowered: Lowered, outputs: Outputs, recorder: replay.Recorder) -> list[tuple[Node, int]]:
    buffers = list({id(p.buffer): p.buffer for p in lowered.pointers}.values())
    slots = {id(b): n for n, b in enumerate(buffers)}
    launch = Launch(
        compiled,
        tuple((slots[id(p.buffer)], p.offset) for p in lowered.pointers),
        lowered.words,
        lowered.extents,
        tuple(o.access for o in lowered.kernel.operands),
        tuple((p.low - p.offset, p.high - p.offset) for p in lowered.pointers),
        len(lowered.faults),
        lowered.nbytes,
        tuple(Grid(*p.grid, p.itemsize) if p.grid else None for p in lowered.pointers) if settings.check else (),
        tuple(_cover(p, o.access) for p, o in zip(lowered.pointers, lowered.kernel.operands, strict=True)),
    )
    recorder.step(launch, buffers, lowered, outputs)
    bind: list[Buffer | None] = list(buffers)
    _, faults = execute(Program(len(buffers), (launch,)), bind)
    found = faults[0]
    if isinstance(found, late.Late):
        found.about(lowered.faults)
        return []
    return [(node, bits) for node, bits in zip(lowered.faults, found, strict=False) if bits]


def _cover(pointer: Pointer, access: str) -> bool | tuple[int, int, int]:
    """True where the elements, each at a place of its own, fill the span from end to end.

    For elements that are read and lie far apart: the width of a run of them, the step to the next, and how many.
    """
    if pointer.grid is None:
        return False
    size = pointer.high - pointer.low
    axes = [(step, extent) for extent, step in zip(*pointer.grid, strict=True) if extent > 1]
    if access == "r":
        axes, width = sorted(axis for axis in axes if axis[0]), pointer.itemsize
        while axes and axes[0][0] == width:
            width *= axes.pop(0)[1]
        if len(axes) == 1 and FAR * width * axes[0][1] <= size and axes[0][0] > width:
            return width, *axes[0]
        return False
    return all(step for step, _ in axes) and math.prod(n for _, n in axes) * pointer.itemsize == size


def _tell_needs() -> None:
    """When memory is short, devices keep what pending work reads."""
    from .runtime import supply  # a device is in use

    def awaited() -> set[int]:
        return {id(s.buffer) for node in tape.nodes for s in node.src if s.state == READY and s.buffer is not None}

    supply.awaited = awaited


def target(kind: str = "") -> Target:
    """The target of the device named; without a name, of the one that work goes to."""
    kind = kind or placement.where()
    if kind in ("auto", "cuda:0"):
        kind = "cuda"
    found = _targets.get(kind)
    if found is None:
        if kind.startswith("cuda"):
            found = device_target()
            _tell_needs()
        else:
            found = host_target() if kind in ("auto", "cpu") else Target(kind, "", "", 16)
        _targets[kind] = found
    return found
