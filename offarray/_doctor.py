"""`python -m offarray doctor`: what works on this machine, what does not, and what mends it.

in: `_facts.collect`; out: findings on the screen or as JSON, and an exit status.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ._facts import Facts, Gpu, collect
from .codegen.nvptx import ARCHITECTURES
from .runtime.cuda import OLDEST
from .runtime.errors import ANSWERS, DeviceError

USAGE = "usage: python -m offarray doctor [--json]"

OK, NOTE, BAD = "ok", "note", "bad"
RESERVE = 1 << 29  # bytes of free device memory below which little can run

# library -> (package, what runs on the host without it)
NEEDED = {
    "cublas": ("nvidia-cublas", "products of matrices"), "cublasLt": ("nvidia-cublas", "products of matrices"),
    "cufft": ("nvidia-cufft", "Fourier transforms"), "cusolver": ("nvidia-cusolver", "linear systems and eigenvalues"),
    "cusparse": ("nvidia-cusparse", "linear systems and eigenvalues"),
    "nvJitLink": ("nvidia-nvjitlink", "linear systems and eigenvalues"),
}  # fmt: skip


class Finding(NamedTuple):
    """One thing found, and what to do about it."""

    state: str  # "ok", "note" or "bad"
    topic: str
    text: str
    remedy: str = ""


def size(nbytes: int) -> str:
    """Bytes for a reader."""
    return f"{nbytes / (1 << 30):.1f} GiB"


# ---------------------------------------------------------------------- the machine
def machine(facts: Facts) -> Iterator[Finding]:
    """Platform, packages, processor, folders."""
    yield Finding(OK, "platform", f"{facts.system} on {facts.machine}, Python {facts.python}")
    for name in ("numpy", "llvmlite"):
        version = facts.packages.get(name)
        if version is None:
            yield Finding(BAD, name, "not installed", f"pip install {name}")
        else:
            yield Finding(OK, name, version)
    if facts.machine not in ("x86_64", "AMD64", "aarch64", "arm64"):
        yield Finding(NOTE, "processor", f"kernels were never tried on {facts.machine}")
    yield Finding(OK, "processor", f"{facts.processor} ({', '.join(facts.features) or 'no vector features'})")
    yield from _limits(facts)
    if facts.cache_error:
        yield Finding(
            NOTE, "cache", f"{facts.cache or 'no folder'}: {facts.cache_error}; kernels are built anew in each process",
            "set OFFARRAY_CACHE_DIR to a folder that can be written",
        )  # fmt: skip
    else:
        yield Finding(OK, "cache", facts.cache)
    if facts.container:
        yield Finding(OK, "container", facts.container)
    if facts.virtual:
        yield Finding(OK, "virtual machine", facts.virtual)


def _limits(facts: Facts) -> Iterator[Finding]:
    if facts.cores_limit and facts.cores_limit + 0.5 < facts.cores:
        yield Finding(
            NOTE, "threads", f"{facts.cores} threads share {facts.cores_limit:g} processors' worth of time",
            f"set OFFARRAY_THREADS={max(round(facts.cores_limit), 1)}, or give the container more",
        )  # fmt: skip
    else:
        yield Finding(OK, "threads", str(facts.cores))
    if facts.memory_limit and facts.memory_limit < facts.memory:
        yield Finding(
            NOTE, "memory", f"{size(facts.memory_limit)} of {size(facts.memory)} are allowed to this control group",
            "set OFFARRAY_MEMORY_LIMIT below it to get an exception in place of being killed",
        )  # fmt: skip
    else:
        yield Finding(OK, "memory", size(facts.memory))


# ---------------------------------------------------------------------- NVIDIA's
def expected(facts: Facts) -> bool:
    """Whether there is any sign of a device, or the user asks for one."""
    return bool(
        facts.cards or facts.nodes or facts.module or facts.library or facts.driver.gpus
        or facts.device.startswith("cuda")
    )  # fmt: skip


def graphics(facts: Facts) -> Iterator[Finding]:
    """Everything about graphics processors, in the order in which a cause comes before its effects."""
    if not expected(facts):
        yield Finding(
            NOTE, "device", "no NVIDIA device or driver found: everything runs on the processor",
            "if there is one: install its driver, and pass the device into the container or virtual machine "
            "(docs/containers.md)",
        )  # fmt: skip
        return
    yield from _hidden(facts)
    if not facts.wsl:
        yield from _modules(facts)
        yield from _files(facts)
    yield from _driver(facts)
    for number, gpu in enumerate(facts.driver.gpus):
        yield from _device(number, gpu)
    yield from packages(facts)


def _hidden(facts: Facts) -> Iterator[Finding]:
    """Variables that hide devices."""
    visible = facts.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and (not visible.strip() or visible.strip().startswith("-1")):
        yield Finding(
            BAD, "CUDA_VISIBLE_DEVICES", f"set to {visible!r}, which hides every device", "unset CUDA_VISIBLE_DEVICES"
        )
    elif visible is not None:
        yield Finding(NOTE, "CUDA_VISIBLE_DEVICES", f"{visible!r}: cuda:0 is the first of these")
    given = facts.environ.get("NVIDIA_VISIBLE_DEVICES")
    if given is not None and given.strip() in ("", "void", "none") and facts.container and not facts.nodes:
        yield Finding(
            BAD, "NVIDIA_VISIBLE_DEVICES", f"set to {given!r}: the container gets no device",
            "start the container with --gpus all, or with NVIDIA_VISIBLE_DEVICES=all",
        )  # fmt: skip
    skills = facts.environ.get("NVIDIA_DRIVER_CAPABILITIES")
    if skills is not None and facts.container and not {"compute", "all"} & set(re.split(r"[ ,]+", skills)):
        yield Finding(
            BAD, "NVIDIA_DRIVER_CAPABILITIES", f"{skills!r} leaves out compute: the driver's library is not passed in",
            "set NVIDIA_DRIVER_CAPABILITIES=compute,utility for the container",
        )  # fmt: skip


def _modules(facts: Facts) -> Iterator[Finding]:
    """The kernel's module and the library, and whether they belong together."""
    if not facts.module:
        where = "on the host" if facts.container else "in this guest" if facts.virtual else "here"
        text = (
            f"{facts.cards} NVIDIA devices on the PCI bus, but"
            if facts.cards
            else "no NVIDIA device on the PCI bus, and"
        )
        yield Finding(
            BAD, "kernel module", f"{text} the module nvidia is not loaded",
            f"install NVIDIA's driver {where} and load it (modprobe nvidia); nouveau must not hold the device"
            if facts.cards else "check that the machine has a device, or that it is passed into the virtual machine",
        )  # fmt: skip
    elif facts.library_version and facts.library_version != facts.module:
        yield Finding(
            BAD, "driver versions", f"library {facts.library_version}, kernel module {facts.module}",
            "in a container the library must be the host's: remove the driver's packages from the image and let the "
            "container toolkit bring it; else reboot after the driver's update"
            if facts.container else "reboot, or reload the module, after the driver's update",
        )  # fmt: skip
    else:
        yield Finding(OK, "kernel module", facts.module)


def _files(facts: Facts) -> Iterator[Finding]:
    """Device files."""
    wanted = ("/dev/nvidiactl", "/dev/nvidia-uvm")
    cards = [path for path in facts.nodes if re.fullmatch(r"/dev/nvidia\d+", path)]
    missing = [path for path in wanted if path not in facts.nodes] + ([] if cards else ["/dev/nvidia0"])
    if missing and (facts.module or facts.nodes):
        yield Finding(
            BAD, "device files", f"missing: {', '.join(missing)}",
            "pass them into the container: --gpus all (Docker), --device nvidia.com/gpu=all (Podman), or mount entries "
            "(LXC); see docs/containers.md" if facts.container else "run `nvidia-modprobe -u -c=0` as root",
        )  # fmt: skip
    closed = [path for path, fine in facts.nodes.items() if not fine]
    if closed:
        yield Finding(
            BAD, "device files", f"no permission to read and write {', '.join(closed)}",
            "add the user to the group that owns them; in rootless containers keep its groups (Podman: --group-add "
            "keep-groups; SELinux: --security-opt label=disable); under LXC allow them in the device control group",
        )  # fmt: skip
    if facts.nodes and not missing and not closed:
        yield Finding(OK, "device files", ", ".join(facts.nodes))


def _driver(facts: Facts) -> Iterator[Finding]:
    """The driver's library and its answer."""
    driver = facts.driver
    if not facts.library:
        yield Finding(
            BAD, "driver library", "libcuda.so.1 is not found",
            "pass the driver into the container: NVIDIA_DRIVER_CAPABILITIES=compute,utility with the container toolkit"
            if facts.container else "install NVIDIA's driver",
        )  # fmt: skip
        return
    if facts.packages.get("cuda-bindings") is None:
        return
    if driver.error:
        unknown = DeviceError, driver.words or "the driver does not start", "see the driver's log (dmesg)"
        _, meaning, remedy = ANSWERS.get(driver.error, unknown)
        yield Finding(BAD, "driver", f"{driver.error}: {meaning}", remedy)
    elif not driver.version:
        yield Finding(BAD, "driver", f"not reached: {driver.words}", "install NVIDIA's driver")
    elif driver.version < OLDEST:
        yield Finding(
            BAD, "driver", f"speaks CUDA {_version(driver.version)}, and {_version(OLDEST)} is needed",
            "update NVIDIA's driver on the host",
        )  # fmt: skip
    else:
        yield Finding(OK, "driver", f"{facts.library_version or facts.library}, CUDA {_version(driver.version)}")
        if not driver.gpus:
            yield Finding(
                BAD, "device", "the driver works and has no device", "see CUDA_VISIBLE_DEVICES and `nvidia-smi`"
            )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _device(number: int, gpu: Gpu) -> Iterator[Finding]:
    """One device: architecture, memory, mode."""
    topic = f"cuda:{number}"
    about = f"{gpu.name}, {gpu.arch}, {size(gpu.memory)}"
    if int(re.sub(r"\D", "", gpu.arch) or 0) < ARCHITECTURES[0]:
        yield Finding(
            BAD, topic, f"{about}: older than sm_{ARCHITECTURES[0]}, for which no kernels are made", "use the processor"
        )
        return
    if not gpu.target:
        yield Finding(BAD, topic, f"{about}: llvmlite makes no code for it", "pip install -U llvmlite")
        return
    if gpu.mode == "prohibited" or gpu.problem:
        yield Finding(
            BAD, topic, f"{about}: {gpu.problem or 'its compute mode is prohibited'}",
            "nvidia-smi -c DEFAULT, or end the process that has it for itself (nvidia-smi lists them)",
        )  # fmt: skip
        return
    if gpu.target != gpu.arch:
        yield Finding(NOTE, topic, f"{about}: kernels are made for {gpu.target} and translated by the driver",
                      "pip install -U llvmlite")  # fmt: skip
    if 0 <= gpu.free < RESERVE:
        yield Finding(
            BAD, topic, f"{about}: {size(gpu.free)} free", "end the other processes on it (nvidia-smi lists them), or "
            "choose another device",
        )  # fmt: skip
    else:
        left = f", {size(gpu.free)} free" if gpu.free >= 0 else ""
        yield Finding(OK, topic, about + left)
    if gpu.mode:
        yield Finding(NOTE, topic, "one process at a time may use it (exclusive mode)", "nvidia-smi -c DEFAULT")


def packages(facts: Facts) -> Iterator[Finding]:
    """Python packages and the libraries that they bring."""
    for name, purpose in (
        ("cuda-bindings", "the interface to the driver"),
        ("nvmath-python", "the interface to libraries"),
    ):
        version = facts.packages.get(name)
        if version is not None:
            yield Finding(OK, name, version)
        else:
            state = BAD if name == "cuda-bindings" else NOTE
            yield Finding(state, name, f"not installed: {purpose}", 'pip install "offarray[cuda]"')
    if facts.libdevice:
        yield Finding(OK, "libdevice", facts.libdevice)
    else:
        yield Finding(BAD, "libdevice", "not found: mathematical functions on devices", "pip install nvidia-nvvm")
    old = 0 < facts.driver.version < 13000
    for name, (package, what) in NEEDED.items():
        if name in facts.libraries:
            yield Finding(OK, name, facts.libraries[name])
        else:
            package += "-cu12" if old else ""
            yield Finding(NOTE, name, f"not found: {what} run on the processor", f"pip install {package}")


# ---------------------------------------------------------------------- trying it
def trial(device: str) -> Finding:
    """Run kernels and compare them with NumPy."""
    import numpy

    from .runtime.config import config

    np: Any = importlib.import_module(__package__ or "offarray")
    topic = f"self test, {'processor' if device == 'cpu' else device}"
    start = time.perf_counter()
    try:
        with config(device=device, eager_size=0, transfer_guard="allow"):
            x = np.arange(10_000.0) if device == "cpu" else np.arange(200_000.0)
            y = np.evaluate(np.exp(x * -1e-3) + x / 3)
            total, found = float(y.sum()), numpy.asarray(y)
    except Exception as error:
        return Finding(BAD, topic, f"{type(error).__name__}: {error}", "set OFFARRAY_DEBUG=1 for more")
    plain = numpy.arange(float(len(found)))
    plain = numpy.exp(plain * -1e-3) + plain / 3
    if not numpy.allclose(found, plain, rtol=1e-13) or not numpy.isclose(total, plain.sum(), rtol=1e-12):
        return Finding(BAD, topic, "wrong values", "report this with the output of --json")
    return Finding(OK, topic, f"{1e3 * (time.perf_counter() - start):.0f} ms")


def findings(facts: Facts, trials: bool = True) -> list[Finding]:
    """Everything that is to be said."""
    found = [*machine(facts), *graphics(facts)]
    if trials:
        found.append(trial("cpu"))
        if facts.packages.get("cuda-bindings") is not None:
            found += [trial(f"cuda:{n}") for n, gpu in enumerate(facts.driver.gpus) if gpu.target and n < 8]
    return found


def show(found: list[Finding]) -> str:
    """The findings for a reader."""
    lines = []
    for f in found:
        lines.append(f"{f.state:<5} {f.topic}: {f.text}")
        if f.remedy and f.state != OK:
            lines.append(f"      -> {f.remedy}")
    bad = sum(f.state == BAD for f in found)
    lines.append("everything works" if not bad else f"{bad} thing{'s' * (bad > 1)} to mend")
    return "\n".join(lines)


def main(args: list[str]) -> int:
    """The command; the exit status is 1 if something is to be mended."""
    if [a for a in args if a not in ("--json", "-h", "--help")]:
        sys.stderr.write(f"{USAGE}\nerror: unknown argument {args[0]}\n")
        return 2
    if "-h" in args or "--help" in args:
        print(USAGE)
        return 0
    facts = collect()
    found = findings(facts)
    if "--json" in args:
        driver = {**facts.driver._asdict(), "gpus": [g._asdict() for g in facts.driver.gpus]}
        data = {
            "facts": {**vars(facts), "driver": driver},
            "findings": [f._asdict() for f in found],
        }  # fmt: skip
        print(json.dumps(data, indent=1, default=str))
    else:
        print(show(found))
    return int(any(f.state == BAD for f in found))
