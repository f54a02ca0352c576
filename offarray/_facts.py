"""What `python -m offarray doctor` finds out about a machine, as plain data; nothing here judges.

in: the system's files, the driver, installed packages; out: `Facts`, which tests make up.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "CUDA_HOME", "CUDA_PATH",
    "LD_LIBRARY_PATH", "OFFARRAY_DEVICE", "OFFARRAY_CACHE_DIR",
)  # fmt: skip
PACKAGES = ("numpy", "llvmlite", "cuda-bindings", "nvidia-nvvm", "nvmath-python", "cuda-cccl")
LIBRARIES = ("cublas", "cublasLt", "cufft", "cusolver", "cusparse", "curand", "nvJitLink")
_NVIDIA = "0x10de"


class Gpu(NamedTuple):
    """A device as its driver describes it."""

    name: str
    arch: str  # "sm_90"
    target: str  # the architecture that kernels for it are made for; "" if none is known
    memory: int  # bytes
    free: int  # bytes; -1 where the driver does not say
    mode: str = ""  # "exclusive" or "prohibited", where not everybody may use it
    problem: str = ""  # why its memory could not be asked for


class Driver(NamedTuple):
    """What the driver answered."""

    version: int = 0  # the newest CUDA it speaks, as 13000; 0 if it was not reached
    error: str = ""  # its code, such as CUDA_ERROR_NO_DEVICE
    words: str = ""
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Everything that was found out."""

    system: str = ""
    machine: str = ""
    python: str = ""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    processor: str = ""
    features: tuple[str, ...] = ()
    cores: int = 1
    cores_limit: float = 0.0  # of the control group; 0 for none
    memory: int = 0
    memory_limit: int = 0
    cache: str = ""
    cache_error: str = ""
    container: str = ""  # its kind
    virtual: str = ""  # the kind of virtual machine
    wsl: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    cards: int = 0  # NVIDIA's display devices on the PCI bus
    module: str = ""  # version of the kernel module
    nodes: Mapping[str, bool] = field(default_factory=dict)  # device file -> whether it may be read and written
    library: str = ""  # the driver's library
    library_version: str = ""
    driver: Driver = field(default_factory=Driver)
    libdevice: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)  # name -> file
    device: str = "auto"  # the setting


def read(path: str) -> str:
    """A file's text; "" where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def collect() -> Facts:
    """Look at this machine."""
    from .codegen.host import host_target
    from .codegen.nvptx import libdevice_path
    from .runtime import placement, threads
    from .runtime.config import settings

    target = host_target()
    library, version = driver_library()
    place, error = cache_folder()
    wanted = {"sse4.2", "avx", "avx2", "fma", "avx512f", "neon", "sve"}
    features = tuple(f[1:] for f in target.features.split(",") if f.startswith("+") and f[1:] in wanted)
    return Facts(
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        python=platform.python_version(),
        packages={name: package(name) for name in PACKAGES},
        processor=placement.processor(),
        features=features,
        cores=threads.count(),
        cores_limit=cores_limit(),
        memory=memory(),
        memory_limit=memory_limit(),
        cache=place,
        cache_error=error,
        container=container(),
        virtual=virtual(),
        wsl="microsoft" in platform.release().lower(),
        environ={name: os.environ[name] for name in VARIABLES if name in os.environ},
        cards=cards(),
        module=kernel_module(),
        nodes=nodes(),
        library=library,
        library_version=version,
        driver=driver(),
        libdevice=libdevice_path() or "",
        libraries={name: found for name in LIBRARIES if (found := library_file(name))},
        device=settings.device,
    )


def package(name: str) -> str | None:
    """Version of an installed package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


# ---------------------------------------------------------------------- the machine
def memory() -> int:
    """Bytes of the machine's memory."""
    found = re.search(r"MemTotal:\s*(\d+) kB", read("/proc/meminfo"))
    return int(found[1]) * 1024 if found else 0


def memory_limit() -> int:
    """Bytes that the control group may have; 0 for no limit."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = read(path).strip()
        if text.isdigit() and int(text) < 1 << 60:
            return int(text)
    return 0


def cores_limit() -> float:
    """Processors' worth of time that the control group may have; 0 for no limit."""
    quota, _, period = read("/sys/fs/cgroup/cpu.max").strip().partition(" ")
    if not quota:
        quota = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
        period = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else 0.0


def cache_folder() -> tuple[str, str]:
    """Where compiled kernels are kept, and why they cannot be."""
    from .runtime import cache

    place = cache.folder()
    if place is None:
        return "", "the user has no home"
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as error:
        return place, str(error)
    return place, ""


def container() -> str:
    """Kind of container that this process is in; "" for none."""
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    found = re.search(r"(?:^|\0)container=([^\0]+)", read("/proc/1/environ"))
    if found:
        return found[1]
    told = read("/run/systemd/container").strip()
    if told:
        return told
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    marks = read("/proc/1/cgroup")
    for word in ("docker", "kubepods", "lxc", "containerd", "libpod"):
        if word in marks:
            return word
    return ""


def virtual() -> str:
    """Kind of virtual machine; "" for none."""
    if "hypervisor" not in read("/proc/cpuinfo"):
        return ""
    return read("/sys/class/dmi/id/sys_vendor").strip() or "unknown kind"


# ---------------------------------------------------------------------- NVIDIA's
def cards() -> int:
    """NVIDIA's display and compute devices on the PCI bus."""
    found = 0
    for path in glob.glob("/sys/bus/pci/devices/*"):
        if read(path + "/vendor").strip() == _NVIDIA and read(path + "/class").startswith("0x03"):
            found += 1
    return found


def kernel_module() -> str:
    """Version of the kernel's module."""
    text = read("/sys/module/nvidia/version").strip()
    if text:
        return text
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", read("/proc/driver/nvidia/version"))
    return found[1] if found else ""


def nodes() -> dict[str, bool]:
    """Device files, and whether this process may use them."""
    found = ["/dev/nvidiactl", "/dev/nvidia-uvm", *glob.glob("/dev/nvidia[0-9]*"), "/dev/dxg"]
    return {path: os.access(path, os.R_OK | os.W_OK) for path in sorted(found) if os.path.exists(path)}


def driver_library() -> tuple[str, str]:
    """File and version of the driver's library, found as the loader does."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(name)
    except OSError:
        return "", ""
    for line in read("/proc/self/maps").splitlines():
        path = line.split(maxsplit=5)[-1]
        if "/libcuda.so" in path:
            found = re.search(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)$", os.path.realpath(path))
            return path, found[1] if found else ""
    return name, ""


def library_file(name: str) -> str:
    """Where a library is: in a package of NVIDIA's, a toolkit, or the loader's path."""
    pattern = f"lib{name}.so*"
    spec = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    places = [p for root in roots for p in sorted(root.glob(f"*/lib/{pattern}"))]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            places += sorted(pathlib.Path(os.environ[variable]).glob(f"lib64/{pattern}"))
    places += sorted(pathlib.Path("/usr/local/cuda/lib64").glob(pattern))
    if places:
        return str(places[0])
    return ctypes.util.find_library(name) or ""


def driver() -> Driver:
    """Ask the driver; without bindings or library there is nothing to ask."""
    try:
        from cuda.bindings import driver as bindings
    except ImportError:
        return Driver()
    try:
        (error,) = bindings.cuInit(0)
        if int(error):
            return Driver(0, error.name, _words(bindings, error))
        error, version = bindings.cuDriverGetVersion()
        error, count = bindings.cuDeviceGetCount()
        if int(error):
            return Driver(version, error.name, _words(bindings, error))
        return Driver(version, gpus=tuple(_gpu(bindings, n) for n in range(count)))
    except RuntimeError as missing:  # no library
        return Driver(words=str(missing))


def _words(bindings: Any, error: Any) -> str:
    try:
        return bindings.cuGetErrorString(error)[1].decode()  # type: ignore[no-any-return]
    except Exception:  # no words for it
        return ""


def _gpu(bindings: Any, number: int) -> Gpu:
    from .codegen.nvptx import reached

    kinds = bindings.CUdevice_attribute
    _, handle = bindings.cuDeviceGet(number)
    name = bindings.cuDeviceGetName(100, handle)[1].split(b"\0")[0].decode(errors="replace")

    def attribute(label: str) -> int:
        return int(bindings.cuDeviceGetAttribute(getattr(kinds, "CU_DEVICE_ATTRIBUTE_" + label), handle)[1])

    arch = f"sm_{attribute('COMPUTE_CAPABILITY_MAJOR')}{attribute('COMPUTE_CAPABILITY_MINOR')}"
    mode = {2: "prohibited", 3: "exclusive"}.get(attribute("COMPUTE_MODE"), "")
    total, free, problem = int(bindings.cuDeviceTotalMem(handle)[1]), -1, ""
    error, context = bindings.cuDevicePrimaryCtxRetain(handle)
    if int(error):
        problem = f"{error.name} {_words(bindings, error)}".strip()
    else:
        bindings.cuCtxPushCurrent(context)
        error, left, _ = bindings.cuMemGetInfo()
        free = -1 if int(error) else int(left)
        bindings.cuCtxPopCurrent()
        bindings.cuDevicePrimaryCtxRelease(handle)
    return Gpu(name, arch, reached(arch) or "", total, free, mode, problem)
