"""Everything that only a device can show: values of every operation and kernel, and speed against the memory's.

python bench/gpu_check.py [table] [examples] [speed]      results: $OUT/gpu_check.json, or the screen
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

os.environ["OFFARRAY_DEVICE"] = "cuda"
import numpy

import offarray as np
from offarray.codegen import gpu_numerics, nvptx
from offarray.codegen.compile import compile, device_target
from offarray.codegen.text import SIZES, Code
from offarray.runtime import buffer as buffers
from offarray.runtime import cuda, residency
from offarray.runtime.program import pack
from offarray.runtime.target import Target
from tests.codegen import device as examples
from tests.codegen.kernels import Builder
from tests.codegen.values import expected, inputs, operations, same

RESULT: dict[str, Any] = {}


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


def table() -> None:
    """Every operation against NumPy."""
    dev = cuda.device()
    cases = [
        (op, srcs, out) for op, signatures in operations().items() for srcs, out in signatures
        if gpu_numerics.supports(op, srcs, out)
    ]  # fmt: skip
    casts = [("cast", (a,), b) for a in SIZES for b in SIZES if a != b]
    cases += casts
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
            specials = [k for k in numpy.flatnonzero(~fine) if not numpy.isfinite(want[k]) or not numpy.isfinite(got[k])
                        or want[k] == 0 or got[k] == 0]  # fmt: skip
            if specials:
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


# ---------------------------------------------------------------------- kernels
def owner(array: Any) -> Any:
    """The array that owns the memory."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def run(k: Builder, target: Target) -> list[int]:
    """Launch on the device; arrays are brought back."""
    compiled = compile(k.kernel(), target)
    held: dict[int, Any] = {}
    pointers = []
    for array in k.arrays:
        base = owner(array)
        if id(base) not in held:
            held[id(base)] = buffers.adopt(base, False)
        buffer = held[id(base)]
        pointers.append((buffer, array.ctypes.data - buffer.address))
    found = residency.launch(
        compiled, pointers, pack(k.words()[len(k.arrays) :]), k.access, len(k.kernel().faults)
    )  # fmt: skip
    for buffer in held.values():
        buffer.device.look(buffer)
    return list(found)


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


def kernels() -> None:
    """Every example."""
    failed = {}
    for name in examples.EXAMPLES:
        try:
            problem = check(name)
        except Exception:
            problem = traceback.format_exc()[-400:]
        if problem:
            failed[name] = problem
    RESULT["examples"] = {"count": len(examples.EXAMPLES), "failed": failed}
    print(f"examples: {len(examples.EXAMPLES)}, failed: {failed}")


# ---------------------------------------------------------------------- speed
def events(work: Callable[[], Any], times: int) -> float:
    """Milliseconds of device time for each call: median of five groups."""
    dev = cuda.device()
    start, stop = cuda.call("cuEventCreate", 0), cuda.call("cuEventCreate", 0)
    found = []
    for _ in range(5):
        cuda.call("cuEventRecord", start, dev.stream)
        for _ in range(times):
            work()
        cuda.call("cuEventRecord", stop, dev.stream)
        cuda.call("cuEventSynchronize", stop)
        found.append(float(cuda.call("cuEventElapsedTime", start, stop)) / times)
    return statistics.median(found)


def program(name: str, x: Any, xp: Any) -> Any:
    """The measured expressions."""
    if name == "triad":
        return x["a"] + 0.5 * x["b"]
    if name == "eos":
        p = x["a"]
        return p[:-6] * 0.1 + p[1:-5] * 0.2 + p[2:-4] * 0.3 + p[3:-3] + p[4:-2] * 0.3 + p[5:-1] * 0.2 + p[6:] * 0.1
    if name == "polynomial":
        a, b = x["a"], x["b"]
        return ((a * 0.3 + b) * a - b / (a + 2.0)) * (a - b) + xp.sqrt(a * a + b)
    if name == "dot":
        return (x["a"] * x["b"]).sum()
    if name == "softmax":
        e = xp.exp(x["m"] - x["m"].max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    if name == "layer norm":
        d = x["m"] - x["m"].mean(axis=1, keepdims=True)
        return d / xp.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)
    if name == "column sum":
        return (x["m"] * x["m"]).sum(axis=0)
    if name == "row sum":
        return x["m"].sum(axis=1)
    if name == "black-scholes":
        s, k = x["a"] * 50 + 50, x["b"] * 50 + 50
        d1 = (xp.log(s / k) + 0.05) / 0.2
        d2 = d1 - 0.2
        n1, n2 = (0.5 * (1 + xp.tanh(0.79788 * (d + 0.044715 * d * d * d))) for d in (d1, d2))
        return s * n1 - k * n2 * 0.97
    if name == "stencil":
        u = x["m"]
        return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    if name == "cumsum":
        return xp.cumsum(x["a"])
    if name == "argmax":
        return x["a"].argmax()
    if name == "deviation":
        return x["m"].std(axis=1)
    if name == "middle axis":
        return x["m"].reshape(256, 1024, 256).sum(axis=1)
    if name == "transposed":
        return x["m"] + x["m"].T
    if name == "taken rows":
        return x["m"][x["i"]] * 2
    if name == "image":
        return xp.clip(x["u"] * xp.float32(1.2) + xp.float32(3), 0, 255).astype("u1")
    if name == "distances":
        p = x["m"][:4096, :3]
        d = p[:, None] - p[None]
        return xp.exp(-(d * d).sum(axis=-1)).sum(axis=1)
    if name == "row maximum, short":
        return x["m"].reshape(-1, 16).max(axis=1)
    raise KeyError(name)


def speed() -> None:
    """Kernels by themselves, evaluations as a program sees them, and CuPy, against the fewest bytes."""
    n, m = 1 << 26, 8192
    rng = numpy.random.default_rng(0)
    host = {"a": rng.random(n), "b": rng.random(n) + 0.5, "m": rng.standard_normal((m, m)).astype("f4")}
    host["i"] = rng.permutation(m)
    host["u"] = rng.integers(0, 256, (m, m)).astype("u1")
    mine = {k: np.asarray(v) + 0 for k, v in host.items()}
    np.evaluate(*mine.values())
    v, w = 8.0 * n, 4.0 * m * m
    nbytes = {
        "triad": 3 * v, "eos": 2 * v, "polynomial": 3 * v, "dot": 2 * v, "softmax": 2 * w, "layer norm": 2 * w,
        "column sum": w, "row sum": w, "black-scholes": 3 * v, "stencil": 2 * w, "cumsum": 2 * v,
        "argmax": v, "deviation": w, "middle axis": w, "transposed": 2 * w, "taken rows": 2 * w, "image": w / 2,
        "distances": 4096 * 4096 * 4.0, "row maximum, short": w,
    }  # fmt: skip
    dev = cuda.device()
    p, q = dev.allocate(n * 8), dev.allocate(n * 8)
    copy = events(lambda: dev.move(q, p, n * 8), 20)
    RESULT["copy_tb_s"] = round(2 * v / copy / 1e9, 3)
    dev.free(p), dev.free(q)
    memory = numpy.ones(n)
    p = dev.allocate(n * 8)
    for label, move in (("h2d_gb_s", dev.upload), ("d2h_gb_s", dev.download)):
        found = []
        for _ in range(4):
            start = time.perf_counter()
            move(*((p, memory.ctypes.data) if label[0] == "h" else (memory.ctypes.data, p)), n * 8)
            dev.synchronize()
            found.append(time.perf_counter() - start)
        RESULT[label] = round(v / min(found) / 1e9, 1)
    dev.free(p)
    try:
        import cupy

        theirs = {k: cupy.asarray(x) for k, x in host.items()}
    except ImportError:
        cupy = None
    rows = {}
    kept: list[tuple[Any, Any]] = []
    plain = residency.launch

    def spy(compiled: Any, pointers: Any, words: Any, access: Any, faults: int) -> bytes:
        row = [residency.use(b, a) + o for (b, o), a in zip(pointers, access, strict=True)]
        kept.append((compiled, pack([*row, *words, 0, 0])))
        return plain(compiled, pointers, words, access, faults)

    for name in nbytes:
        try:
            kept.clear()
            residency.launch = spy
            with numpy.errstate(all="ignore"):
                result = program(name, mine, np)
                np.evaluate(result)
            residency.launch = plain
            launches = list(kept)
            assert launches, "no device kernel"

            def again(launches: list[tuple[Any, Any]] = launches) -> None:
                for compiled, packed in launches:
                    compiled.body(packed.buffer_info()[0], 0, 1)

            kernel = events(again, 20)
            recorded = []
            for _ in range(12):
                start = time.perf_counter()
                r = program(name, mine, np)
                np.evaluate(r)
                dev.synchronize()
                recorded.append(1e3 * (time.perf_counter() - start))
                del r
            floor = nbytes[name] / 4.3e9
            row = {"floor": floor, "kernel": kernel, "share": floor / kernel, "wall": statistics.median(recorded),
                   "kernels": len(launches)}  # fmt: skip
            got = numpy.asarray(result)
            want = program(name, host, numpy)
            scale = float(numpy.abs(want).max())
            row["error"] = float(numpy.abs(got - want).max()) / scale
            del result, got, want
            if cupy is not None:
                stream = cupy.cuda.get_current_stream()
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                found = []
                for _ in range(6):
                    begin.record(stream)
                    r = program(name, theirs, cupy)
                    end.record(stream)
                    end.synchronize()
                    found.append(cupy.cuda.get_elapsed_time(begin, end))
                    del r
                row["cupy"] = statistics.median(found)
            rows[name] = {k: float(f"{x:.4g}") for k, x in row.items()}
            print(f"{name:14}", rows[name])
        except Exception:
            residency.launch = plain
            rows[name] = {"failed": traceback.format_exc()[-500:]}
            print(name, rows[name]["failed"])
    RESULT["speed"] = rows
    small = np.asarray(rng.random(5000)) + 0
    with np.config(eager_size=0):
        for label, state in (("small quiet us", "ignore"), ("small faults us", "warn")):
            with numpy.errstate(all=state):
                for _ in range(20):
                    np.evaluate(small * 2 + 1)
                start = time.perf_counter()
                for _ in range(200):
                    np.evaluate(small * 2 + 1)
                dev.synchronize()
                RESULT[label] = round(5e3 * (time.perf_counter() - start), 1)
    print({k: v for k, v in RESULT.items() if not isinstance(v, dict)})


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
    parts = {"table": table, "examples": kernels, "speed": speed}
    for name in sys.argv[1:] or parts:
        try:
            parts[name]()
        except Exception:
            traceback.print_exc()
    out = os.environ.get("OUT")
    if out:
        with open(os.path.join(out, "gpu_check.json"), "w") as file:
            json.dump(RESULT, file, indent=1, default=str)


if __name__ == "__main__":
    main()
