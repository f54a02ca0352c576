"""Device kernels without a device: every operation and every kind of kernel is accepted by NVIDIA's assembler."""

from __future__ import annotations

import re

import pytest

from offarray.codegen import gpu_numerics, nvptx
from offarray.codegen.gpu import unsupported
from offarray.runtime.config import config

from . import device
from .kernels import Builder
from .values import operations

needs_assembler = pytest.mark.skipif(device.ptxas() is None, reason="no ptxas is installed (nvidia-cuda-nvcc has it)")
needs_library = pytest.mark.skipif(nvptx.libdevice_path() is None, reason="no libdevice installed (nvidia-nvvm has it)")


# Operations whose functions of libdevice refine approximations of numbers that they have scaled; more of complex ones.
REFINED = frozenset(
    """
    arccos arccosh arcsin arcsinh arctan arctanh cbrt cosh exp exp2 floor_divide fmod log log10 log1p log2 logaddexp
    logaddexp2 power remainder sinh tan tanh
    """.split()
)
REFINED_COMPLEX = REFINED | {"cos", "sin", "sqrt", "expm1", "float_power"}
APPROXIMATIONS = {
    "rsqrt.approx.ftz.f32", "rsqrt.approx.ftz.f64", "rcp.approx.ftz.f32", "rcp.approx.ftz.f64", "lg2.approx.f32",
    "lg2.approx.ftz.f32", "ex2.approx.f32", "ex2.approx.ftz.f32", "div.approx.f32", "div.approx.ftz.f32",
    "sqrt.approx.f32",
}  # fmt: skip


def table(lanes: int, arch: str) -> tuple[str, list[tuple[str, str]]]:
    """Module with an entry for every operation that devices have; what each is, and of which type."""
    declarations: dict[str, None] = {}
    functions: list[str] = []
    entries: list[tuple[str, str]] = []
    for op, signatures in operations().items():
        for srcs, out in signatures:
            if gpu_numerics.supports(op, srcs, out):
                code, text = device.operation(f"f{len(functions)}", op, srcs, out, lanes, arch)
                declarations |= code.declarations
                functions.append(text)
                entries.append((op, srcs[0] if srcs else out))
    return "\n".join([*declarations, *functions, ""]), entries


def loose(body: str) -> set[str]:
    """Instructions that are not rounded as IEEE 754 says, or take denormals for zeros."""
    return set(re.findall(r"^\s*(?:@!?%p\d+\s+)?([a-z]\w*\.(?:\S*\.)?(?:ftz|approx|full)\S*)\s", body, re.MULTILINE))


@needs_assembler
@needs_library
@pytest.mark.parametrize(("lanes", "arch"), [(1, "sm_90"), (2, "sm_90"), (1, "sm_80"), (1, "sm_120")])
def test_every_operation(lanes: int, arch: str) -> None:
    text, entries = table(lanes, arch)
    assert len(entries) > 700
    assembly = nvptx.ptx(text, arch)
    head, *parts = re.split(r"^\.visible \.entry (\w+)", assembly, flags=re.MULTILINE)
    assert not loose(head) and len(parts) == 2 * len(entries)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        op, dtype = entries[int(name[1:])]
        found = loose(body)
        assert found <= APPROXIMATIONS, (op, dtype)  # no sum, product, comparison or conversion
        found = loose(body.partition(".func")[0])  # what follows are functions that several entries call
        assert not found or op in (REFINED_COMPLEX if dtype[0] == "c" else REFINED), (op, dtype, found)
    device.assemble(assembly, arch)


def test_what_stays_on_the_host() -> None:
    missing = {
        op for op, signatures in operations().items() for srcs, out in signatures
        if not gpu_numerics.supports(op, srcs, out)
    }  # fmt: skip
    assert not missing
    wide = Builder(10)
    x = wide.load(device.fill(10), 0)
    for _ in range(600):
        x = wide.op("add", "f8", x, x)
    wide.store(device.fill(10), x, 0)
    assert unsupported(wide.kernel()) == "more parameters than a device kernel may have"
    assert unsupported(device.triad(10).kernel()) is None


@needs_assembler
@needs_library
@pytest.mark.parametrize("name", sorted(device.EXAMPLES))
def test_examples_assemble(name: str) -> None:
    for text in device.modules(device.EXAMPLES[name](), "sm_90"):
        device.assemble(nvptx.ptx(text, "sm_90"), "sm_90")


@needs_assembler
@needs_library
@pytest.mark.parametrize("name", ["triad", "softmax", "dot", "columns", "scan", "argmax"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
def test_other_architectures(name: str, arch: str) -> None:
    for text in device.modules(device.EXAMPLES[name](), arch, aligned=False, natural=name != "triad"):
        device.assemble(nvptx.ptx(text, arch), arch)


@needs_library
def test_nothing_is_contracted_or_flushed() -> None:
    """One rounding for each operation; IEEE division and roots; denormals kept."""
    k = Builder(1000)
    x, y = k.load(device.fill(1000, dtype="f4"), 0), k.load(device.fill(1000, dtype="f4", seed=1), 0)
    total = k.op("add", "f4", k.op("multiply", "f4", x, y), k.op("sqrt", "f4", y))
    k.store(device.fill(1000, dtype="f4"), k.op("divide", "f4", total, x), 0)
    assembly = "".join(nvptx.ptx(text, "sm_90") for text in device.modules(k, "sm_90"))
    for instruction in ("mul.rn.f32", "add.rn.f32", "sqrt.rn.f32", "div.rn.f32"):
        assert instruction in assembly
    assert not re.search(r"fma|ftz|approx", assembly)


@needs_library
def test_wide_accesses_where_operands_allow() -> None:
    k = device.triad(100_000)
    text = nvptx.ptx(device.modules(k, "sm_90")[0], "sm_90")
    assert "ld.global.nc.v2.b64" in text and "st.global.v2.b64" in text
    text = nvptx.ptx(device.modules(k, "sm_90", aligned=False)[0], "sm_90")
    assert ".v2." not in text and "ld.global.nc.b64" in text


def roles(name: str) -> list[str]:
    return [step.variant.role for step in device.passes(device.EXAMPLES[name]())]


def test_launches() -> None:
    """Long folds are cut into chunks, rows stay in registers, the choice depends on extents alone."""
    assert roles("triad") == ["whole"]
    assert roles("dot") == ["part"]
    assert roles("normalised") == ["part", "whole"]
    assert roles("scan") == ["scan"]
    assert roles("softmax") == ["whole"]
    assert roles("softmax long") == ["part", "part", "whole"]
    assert device.passes(device.EXAMPLES["softmax"]())[0].variant.keep == 8
    assert device.passes(device.EXAMPLES["softmax wide"]())[0].variant.keep == 0
    first, again = (device.passes(device.EXAMPLES["dot"]()) for _ in range(2))
    assert first == again
    chunks = first[0]
    assert (chunks.chunks - 1) * chunks.length < 1_500_000 <= chunks.chunks * chunks.length


def test_devices_are_settings() -> None:
    with config(device="cuda:3"):
        assert config.get("device") == "cuda:3"
    with pytest.raises(ValueError, match="device"):
        config(device="cuda:x")
