"""What threads of a group do together: shuffles, reductions and scans over a warp or a block.

in: states of folds, one for each thread; out: code whose combination order is fixed by the group's size alone.
"""

from __future__ import annotations

from .folds import Kind, choose, join
from .frame import State
from .text import Code

WARP = 32
_ALL = ("i32", "-1")
BITS = {"i1": 1, "i8": 8, "i16": 16, "half": 16, "i32": 32, "float": 32, "i64": 64, "double": 64}


def special(code: Code, name: str) -> str:
    """A special register, as i32: "tid.x", "ctaid.x", "ctaid.y"."""
    return code.call("i32", f"llvm.nvvm.read.ptx.sreg.{name}")


def barrier(code: Code) -> None:
    """Wait for the threads of the block."""
    code.declare("declare void @llvm.nvvm.barrier0()")
    code.add("call void @llvm.nvvm.barrier0()")


def fence(code: Code) -> None:
    """What this thread has written is there for the device, and it will see what the device has."""
    code.add('fence syncscope("device") acq_rel')


def word(code: Code, type: str, value: str) -> str:
    """A register's bits as i32 or i64."""
    bits = BITS[type]
    if type in ("half", "float", "double"):
        value = code.op(f"bitcast {type} {value} to i{bits}")
    return code.op(f"zext i{bits} {value} to i32") if bits < 32 else value


def back(code: Code, type: str, bits: str) -> str:
    """A register of such bits."""
    size = BITS[type]
    if size < 32:
        bits = code.op(f"trunc i32 {bits} to i{size}")
    return code.op(f"bitcast i{size} {bits} to {type}") if type in ("half", "float", "double") else bits


def shuffle(code: Code, how: str, type: str, value: str, lane: str) -> str:
    """What another lane of the warp holds: `how` is "down", "up" or "idx"."""
    bits = word(code, type, value)
    clamp = ("i32", "0" if how == "up" else "31")

    def one(part: str) -> str:
        return code.call("i32", f"llvm.nvvm.shfl.sync.{how}.i32", _ALL, ("i32", part), ("i32", lane), clamp)

    if BITS[type] < 64:
        return back(code, type, one(bits))
    low = one(code.op(f"trunc i64 {bits} to i32"))
    high = one(code.op(f"trunc i64 {code.op(f'lshr i64 {bits}, 32')} to i32"))
    both = code.op(f"shl i64 {code.op(f'zext i32 {high} to i64')}, 32")
    return back(code, type, code.op(f"or i64 {both}, {code.op(f'zext i32 {low} to i64')}"))


class Group:
    """The threads that share a unit of work.

    Parameters
    ----------
    code : Code
    size, block : int
        Threads of the group (a power of two up to a warp, or a whole block) and of a block.
    thread : str
        Register (i32) of a thread's number in its block.
    once : bool
        Whether what is written is run once: shared memory is then not written again.
    """

    def __init__(self, code: Code, size: int, block: int, thread: str, once: bool = False) -> None:
        self.code, self.size, self.block, self.once = code, size, block, once
        self.lane = code.op(f"and i32 {thread}, {WARP - 1}")
        self.warp = code.op(f"lshr i32 {thread}, 5")
        number = thread if size == block else code.op(f"and i32 {thread}, {size - 1}")
        self.leader = code.op(f"icmp eq i32 {number}, 0")
        self.number = code.op(f"zext i32 {number} to i64")
        self._arrays = 0

    def sync(self) -> None:
        """Wait until every thread of the group is here."""
        if self.size > WARP:
            barrier(self.code)
        else:
            self.code.declare("declare void @llvm.nvvm.bar.warp.sync(i32)")
            self.code.add("call void @llvm.nvvm.bar.warp.sync(i32 -1)")

    def moved(self, how: str, kind: Kind, state: State, lane: str) -> State:
        """The state that another lane holds."""
        return [shuffle(self.code, how, t, r, lane) for t, r in zip(kind.scalars(), state, strict=True)]

    def _within(self, kind: Kind, state: State, count: int) -> State:
        """Lane 0 gets the combination of the first `count` lanes (a power of two), in order."""
        step = count // 2
        while step:
            state = join(self.code, kind, 1, state, self.moved("down", kind, state, str(step)))
            step //= 2
        return state

    # ------------------------------------------------------------------ shared memory
    def array(self, type: str, count: int = 1) -> str:
        """Shared memory for some scalars."""
        self._arrays += 1
        name = f"@shared{self._arrays}"
        self.code.declare(f"{name} = internal addrspace(3) global [{count} x {type}] undef, align 8")
        return name

    def _spread(self, kind: Kind, state: State, writes: str) -> State:
        """For lane k of every warp what warp k's thread under `writes` holds; lanes without a warp repeat one."""
        code, warps = self.code, self.size // WARP
        arrays = [self.array("i8" if t == "i1" else t, warps) for t in kind.scalars()]
        put, done = code.label("share"), code.label("shared")
        code.add(f"br i1 {writes}, label %{put}, label %{done}")
        code.start(put)
        for t, r, array in zip(kind.scalars(), state, arrays, strict=True):
            place = code.op(f"getelementptr {'i8' if t == 'i1' else t}, ptr addrspace(3) {array}, i32 {self.warp}")
            if t == "i1":
                t, r = "i8", code.op(f"zext i1 {r} to i8")
            code.add(f"store {t} {r}, ptr addrspace(3) {place}")
        code.add(f"br label %{done}")
        code.start(done)
        barrier(code)
        lane = code.op(f"and i32 {self.lane}, {warps - 1}")
        found: State = []
        for t, array in zip(kind.scalars(), arrays, strict=True):
            memory = "i8" if t == "i1" else t
            place = code.op(f"getelementptr {memory}, ptr addrspace(3) {array}, i32 {lane}")
            r = code.op(f"load {memory}, ptr addrspace(3) {place}")
            found.append(code.op(f"trunc i8 {r} to i1") if t == "i1" else r)
        if not self.once:
            barrier(code)  # the memory may be written again
        return found

    # ------------------------------------------------------------------ together
    def total(self, kind: Kind, state: State) -> State:
        """Every thread gets the combination of all threads' states."""
        state = self._within(kind, state, min(self.size, WARP))
        if self.size < WARP:  # the threads of other groups in between add what nobody uses
            first = self.code.op(f"and i32 {self.lane}, {-self.size}")
            return self.moved("idx", kind, state, first)
        if self.size > WARP:
            first = self.code.op(f"icmp eq i32 {self.lane}, 0")
            state = self._within(kind, self._spread(kind, state, first), self.size // WARP)
        return self.moved("idx", kind, state, "0")

    def prefix(self, kind: Kind, state: State) -> State:
        """Every lane gets the combination of the lanes up to its own."""
        code, step = self.code, 1
        while step < WARP:
            before = self.moved("up", kind, state, str(step))
            some = code.op(f"icmp uge i32 {self.lane}, {step}")
            state = choose(code, 1, some, kind.types(1), join(code, kind, 1, before, state), state)
            step *= 2
        return state

    def scan(self, kind: Kind, state: State) -> tuple[State, State]:
        """(combination of the threads up to each one, of all)."""
        code = self.code
        state = self.prefix(kind, state)
        every = self.moved("idx", kind, state, str(WARP - 1))
        if self.size == WARP:
            return state, every
        before, total = self.before(kind, every)
        return join(code, kind, 1, before, state), total

    def before(self, kind: Kind, every: State) -> tuple[State, State]:
        """(combination of the warps before each one, of all); `every` is that of a warp's lanes, in all of them."""
        code = self.code
        sums = self.prefix(kind, self._spread(kind, every, code.op(f"icmp eq i32 {self.lane}, 0")))
        earlier = self.moved("idx", kind, sums, code.op(f"sub i32 {self.warp}, 1"))
        some = code.op(f"icmp ne i32 {self.warp}, 0")
        earlier = choose(code, 1, some, kind.types(1), earlier, kind.identity(1))
        return earlier, self.moved("idx", kind, sums, str(self.size // WARP - 1))

    def over_warp(self, kind: Kind, state: State) -> State:
        """Every lane gets the combination of its warp's lanes."""
        return self.moved("idx", kind, self._within(kind, state, WARP), "0")
