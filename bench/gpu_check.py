"""What only a device can show: values of every operation and kernel, and the same bits each time (speed: gpu.py).

python bench/gpu_check.py [table] [roots] [examples] [shapes]      results: $OUT/gpu_check.json, or the screen

A part may be cut: "shapes:2/8" is the third of eight slices.  With "brief" arrays are small and run once, as
compute-sanitizer wants it (after a run without it has built the kernels into the same OFFARRAY_CACHE_DIR).
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

os.environ["OFFARRAY_DEVICE"] = "cuda"
import numpy

import offarray as np
from offarray.codegen import gpu_numerics, nvptx
from offarray.codegen.compile import device_target
from offarray.codegen.gpu_attempt import root
from offarray.codegen.text import SIZES, Code
from offarray.runtime import cuda
from offarray.runtime.target import Target
from tests.codegen import device as examples
from tests.codegen.device import run
from tests.codegen.values import expected, inputs, operations, same

RESULT: dict[str, Any] = {}
SECONDS = 40  # after which no further shapes are begun
Slice = tuple[int, int]  # the k-th of n
BRIEF = 1 << 18  # elements of a shape, at most, where it is brief


# ---------------------------------------------------------------------- operations
def entry(name: str, op: str, srcs: tuple[str, ...], out: str, arch: str) -> tuple[Code, str]:
    """A kernel that does one operation for each thread below %n."""
    code = Code(Target("cuda", arch, "+fma", 16))
    tid = code.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x")
    block = code.call("i32", "llvm.nvvm.read.ptx.sreg.ctaid.x")
    number = code.op(f"add i32 {code.op(f'mul i32 {block}, 256')}, {tid}")
    number = code.op(f"zext i32 {number} to i64")
    code.add(f"br i1 {code.op(f'icmp ult i64 {number}, %n')}, label %work, label %end")
    code.start("work")

    def at(pointer: str, dtype: str) -> str:
        return code.op(f"getelementptr i8, ptr {pointer}, i64 {code.op(f'mul i64 {number}, {SIZES[dtype]}')}")

    args = tuple(code.read(dtype, at(f"%p{k}", dtype)) for k, dtype in enumerate(srcs))
    result = gpu_numerics.apply(code, op, srcs, out, args)
    code.write(out, result, at("%q", out))
    code.add("br label %end")
    code.start("end")
    code.add("ret void")
    parameters = ", ".join([*(f"ptr %p{k}" for k in range(len(srcs))), "ptr %q", "i64 %n"])
    return code, code.function(f"define ptx_kernel void @{name}({parameters})")


def stretch(op: str, arrays: list[Any], want: Any) -> Any:
    """How many times an operation enlarges the rounding of what it is composed of, here and in NumPy."""
    with numpy.errstate(all="ignore"):
        if op.startswith("logaddexp"):  # a sum whose terms may cancel
            sizes = [numpy.spacing(numpy.abs(a)).astype("f8") for a in (*arrays, want)]
            return numpy.nan_to_num(numpy.maximum(numpy.maximum(*sizes[:2]) / sizes[2], 1), nan=1.0)
        if op.endswith("power") and want.dtype.kind == "c":  # an exponential, of its argument
            return numpy.nan_to_num(1 + numpy.abs(arrays[1]) * numpy.abs(numpy.log(arrays[0])), nan=1.0)
    return numpy.ones(len(want))


def distance(got: Any, want: Any, stretched: Any) -> float:
    """Units in the last place where both are finite; infinite where specials differ (sign of zero apart)."""
    if got.dtype.kind == "c":
        scale = numpy.abs(want)
        part = numpy.finfo(want.dtype).eps
        fine = numpy.isfinite(want) & numpy.isfinite(got)
        with numpy.errstate(all="ignore"):
            far = numpy.abs(got - want)[fine] / numpy.maximum(scale[fine] * part, numpy.finfo(want.dtype).tiny)
            far /= stretched[fine]
        return float(far.max(initial=0))
    with numpy.errstate(all="ignore"):
        special = ~numpy.isfinite(want) | ~numpy.isfinite(got)
        if not ((got == want) | (numpy.isnan(got) & numpy.isnan(want)))[special].all():
            return float("inf")
        unit = numpy.spacing(numpy.abs(want[~special])).astype("f8")
        far = numpy.abs(got[~special].astype("f8") - want[~special].astype("f8")) / unit / stretched[~special]
    return float(far.max(initial=0))


def unlike(got: Any, want: Any) -> Any:
    """Where a zero, an infinity or NaN stands for something else."""
    if want.dtype.kind == "c":
        return unlike(got.real, want.real) | unlike(got.imag, want.imag)
    special = ~numpy.isfinite(want) | ~numpy.isfinite(got) | (want == 0) | (got == 0)
    return special & ~same(got, want)


def table(part: Slice, brief: bool) -> None:
    """Every operation against NumPy."""
    dev = cuda.device()
    cases = [
        (op, srcs, out) for op, signatures in operations().items() for srcs, out in signatures
        if gpu_numerics.supports(op, srcs, out)
    ]  # fmt: skip
    casts = [("cast", (a,), b) for a in SIZES for b in SIZES if a != b]
    cases += casts
    cases = cases[part[0] :: part[1]]
    functions: list[Any] = []
    start = time.perf_counter()
    for first in range(0, len(cases), 300):
        declarations: dict[str, None] = {}
        texts = []
        for n, case in enumerate(cases[first : first + 300]):
            code, text = entry(f"f{first + n}", *case, dev.arch)
            declarations |= code.declarations
            texts.append(text)
        binary = dev.assemble(nvptx.ptx("\n".join([*declarations, *texts, ""]), dev.arch))
        functions += [dev.load(binary, f"f{first + n}") for n in range(len(texts))]
    built = time.perf_counter() - start
    exact, close, wrong = 0, {}, {}
    for (op, srcs, out), function in zip(cases, functions, strict=True):
        if op == "cast":
            arrays = inputs("positive", srcs)
            with numpy.errstate(all="ignore"):
                import warnings

                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    want = arrays[0].astype(out)
        else:
            arrays = inputs(op, srcs)
            want = expected(op, *arrays)
        got = numpy.zeros(len(arrays[0]), out)
        pointers = [dev.allocate(a.nbytes) for a in (*arrays, got)]
        for a, p in zip(arrays, pointers, strict=False):
            a = numpy.ascontiguousarray(a)
            dev.upload(p, a.ctypes.data, a.nbytes)
            dev.synchronize()
        dev.clear(pointers[-1], got.nbytes)
        dev.launch(function, (-(-len(got) // 256), 1), 256, [*pointers, len(got)])
        dev.download(got.ctypes.data, pointers[-1], got.nbytes)
        for p in pointers:
            dev.free(p)
        label = f"{op} {','.join(srcs)}->{out}"
        fine = same(got, want)
        if fine.all():
            exact += 1
        elif out[0] in "fc":
            ulp = distance(got, want, stretch(op, arrays, want))
            bad = numpy.flatnonzero(~fine)[:3]
            close[label] = round(ulp, 2)
            if not ulp <= 4:
                wrong[label] = [round(ulp, 1), *(f"{[a[k] for a in arrays]} {got[k]} {want[k]}" for k in bad)]
            specials = numpy.flatnonzero(unlike(got, want))
            if len(specials):
                wrong.setdefault(label, []).extend(
                    f"special {[a[k] for a in arrays]} {got[k]} {want[k]}" for k in specials[:3]
                )
                wrong[label].append(len(specials))
        else:
            bad = numpy.flatnonzero(~fine)[:3]
            wrong[label] = [f"{[a[k] for a in arrays]} {got[k]} {want[k]}" for k in bad]
    RESULT["table"] = {"cases": len(cases), "exact": exact, "close": close, "wrong": wrong, "build_s": round(built, 1)}
    print(f"table: {len(cases)} operations, {exact} bit for bit, {len(close)} rounded, {len(wrong)} to look at")
    for label, found in list(wrong.items())[:70]:
        print("  ", label, str(found)[:230])


# ---------------------------------------------------------------------- roots
def rooted(name: str, dtype: str, arch: str) -> tuple[Code, str]:
    """A kernel that counts the numbers whose root by the shortcut is not the processor's own."""
    code = Code(Target("cuda", arch, "+fma", 16))
    tid = code.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x")
    block = code.call("i32", "llvm.nvvm.read.ptx.sreg.ctaid.x")
    number = code.op(f"add i32 {code.op(f'mul i32 {block}, 256')}, {tid}")
    number = code.op(f"zext i32 {number} to i64")
    number = code.op(f"add i64 {number}, %first")
    if dtype == "f4":  # every number there is
        x = code.op(f"bitcast i32 {code.op(f'trunc i64 {number} to i32')} to float")
    else:  # any bits; every other time what lies next to the square of a number halfway between two
        word = code.op(f"mul i64 {code.op(f'add i64 {number}, 1')}, {0x9E3779B97F4A7C15 - (1 << 64)}")
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word = code.op(f"xor i64 {word}, {code.op(f'lshr i64 {word}, {shift}')}")
            word = code.op(f"mul i64 {word}, {factor - (1 << 64)}")
        word = code.op(f"xor i64 {word}, {code.op(f'lshr i64 {word}, 31')}")
        near = code.op(f"or i64 {code.op(f'lshr i64 {word}, 12')}, {1023 << 52}")
        near = code.op(f"bitcast i64 {near} to double")
        half = code.op(f"fmul double {near}, {code.const('f8', 2.0**-52)}")
        square = code.op(f"bitcast double {code.intrinsic('fma', 'f8', near, near, half)} to i64")
        odd = code.op(f"trunc i64 {number} to i1")
        x = code.op(f"bitcast i64 {code.op(f'select i1 {odd}, i64 {square}, i64 {word}')} to double")
    found, fits = root(code, dtype, x)
    usual = code.intrinsic("sqrt", dtype, x)
    kind, t = ("i32", "float") if dtype == "f4" else ("i64", "double")
    a, b = (code.op(f"bitcast {t} {v} to {kind}") for v in (found, usual))
    wrong = code.op(f"and i1 {fits}, {code.op(f'icmp ne {kind} {a}, {b}')}")
    for place, condition in ((0, wrong), (1, fits)):
        where = code.op(f"getelementptr i64, ptr %q, i64 {place}")
        code.op(f"atomicrmw add ptr {where}, i64 {code.op(f'zext i1 {condition} to i64')} monotonic")
    code.add("ret void")
    return code, code.function(f"define ptx_kernel void @{name}(ptr %q, i64 %first)")


def roots(part: Slice, brief: bool) -> None:
    """The shortcuts of roots: of all float32, and of many float64."""
    dev, found = cuda.device(), {}
    for dtype in ("f4", "f8"):
        code, text = rooted("roots", dtype, dev.arch)
        binary = dev.assemble(nvptx.ptx("\n".join([*code.declarations, text, ""]), dev.arch))
        function, size = dev.load(binary, "roots"), 1 << 30
        counts, place = numpy.zeros(2, "i8"), dev.allocate(16)
        dev.clear(place, 16)
        for first in range(0, 1 << 32, size):
            dev.launch(function, (size // 256, 1), 256, [place, first])
        dev.download(counts.ctypes.data, place, 16)
        dev.free(place)
        found[dtype] = {"wrong": int(counts[0]), "ordinary": int(counts[1])}
    RESULT["roots"] = found
    print(f"roots: {found}")


# ---------------------------------------------------------------------- kernels
def check(name: str) -> str:
    """Compare one example with the interpreter; twice on the device, for the same bits."""
    make = examples.EXAMPLES[name]
    first, second, truth = make(), make(), make()
    target = device_target()
    faults = run(first, target)
    run(second, target)
    wanted = truth.run(Target("interpret", "", "", 16))
    problem = ""
    for a, b, c in zip(first.arrays, second.arrays, truth.arrays, strict=True):
        if a.tobytes() != b.tobytes():
            problem = "two runs differ"
        if a.dtype.kind in "fc":
            a, c = (numpy.nan_to_num(v, nan=-3.0) for v in (a, c))
            scale = float(numpy.abs(c).max(initial=1))
            worst = float(numpy.abs(a - c).max(initial=0)) / scale / numpy.finfo(a.dtype).eps
            limit = 2000 if "scan" in name else 600
            if not worst <= limit:
                problem = f"off by {worst:.0f} eps"
        elif not (a == c).all():
            problem = f"{(a != c).sum()} of {a.size} differ"
    if faults[: len(wanted)] != wanted:
        problem += f" faults {faults} not {wanted}"
    return problem


def kernels(part: Slice, brief: bool) -> None:
    """Every example."""
    failed = {}
    names = list(examples.EXAMPLES)[part[0] :: part[1]]
    for name in names:
        try:
            problem = check(name)
        except Exception:
            problem = traceback.format_exc()[-400:]
        if problem:
            failed[name] = problem
    RESULT["examples"] = {"count": len(names), "failed": failed}
    print(f"examples: {len(names)}, failed: {failed}")


# ---------------------------------------------------------------------- shapes
LONG = (5000, 8191, 8193, 65536, 100003, 1 << 20, 3333333, 4200001, 1 << 24)
FLAT = (
    (3, 100001), (100, 20000), (4097, 16), (100000, 7), (33, 1000), (1000, 33), (511, 513), (70000, 40), (16, 300000),
    (2000000, 3), (513, 2049), (4096, 4096),
)  # fmt: skip


def along(xp: Any, a: Any) -> dict[str, Callable[[], Any]]:
    """Folds and scans of a vector."""
    return {
        "cumsum": lambda: xp.cumsum(a), "cumsum, more": lambda: xp.cumsum(a * 2) + a,
        "maximum": lambda: xp.maximum.accumulate(a), "sum": lambda: a.sum(), "argmax": lambda: a.argmax(),
        "norm": lambda: a * 0.5 / a.sum(), "variance": lambda: a.var(),
    }  # fmt: skip


def across(xp: Any, a: Any) -> dict[str, Callable[[], Any]]:
    """Folds, scans and neighbours in a matrix."""

    def softmax() -> Any:
        e = xp.exp(a - a.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def stencil() -> Any:
        return a[1:-1, 1:-1] * 0.5 + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]

    return {
        "columns": lambda: a.sum(axis=0), "rows": lambda: a.sum(axis=1), "maximum": lambda: a.max(axis=1),
        "scan": lambda: xp.cumsum(a, axis=1), "scan down": lambda: xp.cumsum(a, axis=0), "softmax": softmax,
        "stencil": stencil, "deviation": lambda: a.std(axis=1), "argmax": lambda: a.argmax(axis=1),
        "argmin": lambda: a.argmin(axis=0), "transposed": lambda: xp.ascontiguousarray(a.T) * 2,
        "lying": lambda: a * 3 + xp.ascontiguousarray(a.T).T,
    }  # fmt: skip


def shapes(part: Slice, brief: bool) -> None:
    """Folds, scans, tiles and stencils of many extents against NumPy; three runs give the same bits."""
    rng = numpy.random.default_rng(1)
    wrong: list[str] = []
    count, begun = 0, time.perf_counter()
    every = [(s, along) for s in LONG] + [(s, across) for s in FLAT]
    if brief:
        every = [(s, make) for s, make in every if numpy.prod(s) <= BRIEF or s in (1 << 20, 4200001, (16, 300000))]
    shape: Any = ()
    for shape, parts in every[part[0] :: part[1]]:
        a = rng.random(shape)
        mine = np.array(a)
        with np.config(eager_size=0):
            wanted, found = parts(numpy, a), parts(np, mine)
            for name, want in wanted.items():
                count += 1
                try:
                    runs = [numpy.array(np.evaluate(found[name]())) for _ in range(1 if brief else 3)]
                    if any(r.tobytes() != runs[0].tobytes() for r in runs):
                        wrong.append(f"{name} {shape}: not the same bits")
                    true = want()
                    far = float(numpy.abs(runs[0] - true).max()) / max(float(numpy.abs(true).max()), 1e-300)
                    if not far <= 1e-11:
                        wrong.append(f"{name} {shape}: off by {far:.3g}")
                except Exception:
                    wrong.append(f"{name} {shape}: {traceback.format_exc()[-400:]}")
        if not brief and time.perf_counter() - begun > SECONDS:
            break
    RESULT["shapes"] = {"count": count, "wrong": wrong}
    print(f"shapes: {count} up to {shape}, {len(wrong)} wrong", *wrong[:20], sep="\n  ")


def main() -> None:
    """Run the parts named, or all."""
    dev = cuda.device()
    device_target()
    import llvmlite

    RESULT["machine"] = {
        "device": dev.name, "arch": dev.arch, "driver": int(cuda.call("cuDriverGetVersion")),
        "numpy": numpy.__version__,
        "llvmlite": llvmlite.__version__, "python": sys.version.split()[0],
    }  # fmt: skip
    print(RESULT["machine"])
    parts = {"table": table, "roots": roots, "examples": kernels, "shapes": shapes}
    asked = [name for name in sys.argv[1:] if name != "brief"]
    for name in asked or parts:
        name, _, cut = name.partition(":")
        k, _, n = (cut or "0/1").partition("/")
        start = time.perf_counter()
        try:
            parts[name]((int(k), int(n)), "brief" in sys.argv)
        except Exception:
            traceback.print_exc()
        print(f"{name} {cut}: {time.perf_counter() - start:.1f} s", flush=True)
    out = os.environ.get("OUT")
    if out:
        with open(os.path.join(out, "gpu_check.json"), "w") as file:
            json.dump(RESULT, file, indent=1, default=str)


if __name__ == "__main__":
    main()
