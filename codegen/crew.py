"""How threads hand each other parts of a launch, as machine code: no interpreter, and its lock is not held.

in: the board of runtime/threads.py; out: `share(board, count, 0)`, which runs the parts on it, and `serve(slot)`, in
which a worker looks for parts for a while.

A worker that looks is given its part by one exchange of a word.  One that sleeps is woken by runtime/threads.py, and a
part that nobody has begun when the caller has done its own is taken back: waking costs a launch next to nothing,
whoever comes late.  A worker that was woken may be done, and look again, before `share` begins: such a part is not
offered once more.  A worker sleeps only from the state in which it looks: where that has changed, it looks again.
"""

from __future__ import annotations

import platform
from functools import cache

from ..runtime import threads
from . import builtin, host, mathlib

_X86 = "@llvm.x86.sse2.pause()"
_ARM = "@llvm.aarch64.hint(i32 1)"
_PAUSE = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}
_NAME = "offarray_crew"

_TEXT = """
declare i32 @usleep(i32)
declare void {declared}

define internal void @run(ptr %slot) {{
  %at = getelementptr i64, ptr %slot, i64 {CODE}
  %code = load ptr, ptr %at
  %rowat = getelementptr i64, ptr %slot, i64 {ROW}
  %row = load ptr, ptr %rowat
  %firstat = getelementptr i64, ptr %slot, i64 {FIRST}
  %first = load i64, ptr %firstat
  %lastat = getelementptr i64, ptr %slot, i64 {LAST}
  %last = load i64, ptr %lastat
  %answer = call i32 %code(ptr %row, i64 %first, i64 %last)
  %wide = sext i32 %answer to i64
  %answerat = getelementptr i64, ptr %slot, i64 {ANSWER}
  store i64 %wide, ptr %answerat
  %doneat = getelementptr i64, ptr %slot, i64 {DONE}
  store atomic i64 1, ptr %doneat release, align 8
  ret void
}}

define i32 @{name}_finish(ptr %slot) {{
entry:
  %patienceat = getelementptr i64, ptr %slot, i64 {PATIENCE}
  br label %look
look:
  %count = phi i64 [ 0, %entry ], [ %more, %idle ], [ 0, %work ], [ 0, %rest ]
  %state = load atomic i64, ptr %slot acquire, align 8
  switch i64 %state, label %idle [ i64 {POSTED}, label %take
                                   i64 {ASLEEP}, label %wake ]
wake:
  %woken = cmpxchg ptr %slot, i64 {ASLEEP}, i64 {AWAKE} acq_rel monotonic
  br label %idle
take:
  %taken = cmpxchg ptr %slot, i64 {POSTED}, i64 {RUNNING} acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %mine, label %work, label %idle
work:
  call void @run(ptr %slot)
  store atomic i64 {AWAKE}, ptr %slot release, align 8
  br label %look
idle:
  call void {pause}
  %more = add i64 %count, 1
  %patience = load atomic i64, ptr %patienceat monotonic, align 8
  %enough = icmp ugt i64 %more, %patience
  br i1 %enough, label %rest, label %look
rest:
  %gone = cmpxchg ptr %slot, i64 {AWAKE}, i64 {ASLEEP} acq_rel monotonic
  %slept = extractvalue {{ i64, i1 }} %gone, 1
  br i1 %slept, label %leave, label %look
leave:
  ret i32 0
}}

define i32 @{name}_body(ptr %board, i64 %count, i64 %unused) {{
entry:
  %some = icmp sgt i64 %count, 1
  br i1 %some, label %post, label %own
post:
  %k = phi i64 [ 1, %entry ], [ %k1, %posted ]
  %to = mul i64 %k, {STEP}
  %slot = getelementptr i64, ptr %board, i64 %to
  %ready = load atomic i64, ptr %slot acquire, align 8
  %looks = icmp eq i64 %ready, {AWAKE}
  br i1 %looks, label %early, label %posted
early:
  %earlyat = getelementptr i64, ptr %slot, i64 {DONE}
  %earlydone = load atomic i64, ptr %earlyat acquire, align 8
  %open = icmp eq i64 %earlydone, 0
  br i1 %open, label %offer, label %posted
offer:
  %offered = cmpxchg ptr %slot, i64 {AWAKE}, i64 {POSTED} acq_rel monotonic
  br label %posted
posted:
  %k1 = add i64 %k, 1
  %others = icmp slt i64 %k1, %count
  br i1 %others, label %post, label %own
own:
  %owndoneat = getelementptr i64, ptr %board, i64 {DONE}
  %owndone = load i64, ptr %owndoneat
  %again = icmp ne i64 %owndone, 0
  br i1 %again, label %joins, label %begin
begin:
  call void @run(ptr %board)
  br label %joins
joins:
  %ownat = getelementptr i64, ptr %board, i64 {ANSWER}
  %ownanswer = load i64, ptr %ownat
  br label %join
join:
  %n = phi i64 [ %count, %joins ], [ %m, %joined ]
  %answer = phi i64 [ %ownanswer, %joins ], [ %all, %joined ]
  %m = sub i64 %n, 1
  %left = icmp sgt i64 %m, 0
  br i1 %left, label %other, label %leave
other:
  %from = mul i64 %m, {STEP}
  %its = getelementptr i64, ptr %board, i64 %from
  %doneat = getelementptr i64, ptr %its, i64 {DONE}
  br label %look
look:
  %waited = phi i64 [ 0, %other ], [ %wait, %patient ]
  %state = load atomic i64, ptr %its acquire, align 8
  %done = load atomic i64, ptr %doneat acquire, align 8
  %over = icmp ne i64 %done, 0
  br i1 %over, label %joined, label %undone
undone:
  switch i64 %state, label %mine [ i64 {RUNNING}, label %busy
                                   i64 {POSTED}, label %back ]
back:
  %won = cmpxchg ptr %its, i64 {POSTED}, i64 {ASLEEP} acq_rel monotonic
  %is = extractvalue {{ i64, i1 }} %won, 1
  br i1 %is, label %mine, label %busy
mine:
  call void @run(ptr %its)
  br label %joined
busy:
  call void {pause}
  %wait = add i64 %waited, 1
  %long = icmp ugt i64 %wait, {LONG}
  br i1 %long, label %doze, label %patient
doze:
  %dozed = call i32 @usleep(i32 20)
  br label %patient
patient:
  br label %look
joined:
  %itsat = getelementptr i64, ptr %its, i64 {ANSWER}
  %itsanswer = load i64, ptr %itsat
  %all = or i64 %answer, %itsanswer
  br label %join
leave:
  %result = trunc i64 %answer to i32
  ret i32 %result
}}
"""


def text() -> str | None:
    """LLVM IR of the two functions; None for a processor whose pause is not known."""
    pause = _PAUSE.get(platform.machine())
    words = {name: getattr(threads, name) for name in threads.WORDS}
    return (
        None
        if pause is None
        else _TEXT.format(name=_NAME, pause=pause, declared=pause.replace(" 1", ""), LONG=threads.LONG, **words)
    )


@cache
def made() -> threads.Crew | None:
    """The functions `share` and `serve`, compiled or from disk; None where threads must meet in the interpreter."""
    source = text()
    if source is None or not builtin.usable():
        return None
    names = f"{_NAME}_body", f"{_NAME}_finish"
    try:
        found = host.common(source, names, ["usleep"], mathlib.resolve)
    except LookupError:
        return None
    return host.callable_at(3, found[names[0]]), host.callable_at(1, found[names[1]])
