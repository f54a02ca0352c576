"""Exceptions of the package: every one is an `OffarrayError`, and also the built-in kind that a caller may expect."""

from __future__ import annotations


class OffarrayError(Exception):
    """Base of all errors that are offarray's own (NumPy's errors keep NumPy's classes)."""


class MovedError(OffarrayError, RuntimeError):
    """A value was used after `move` took it away."""


class BorrowError(OffarrayError, RuntimeError):
    """A borrowed value was written, or one that others look at was moved."""


class FallbackError(OffarrayError, RuntimeError):
    """NumPy would have had to run a step on the host while `fallback="raise"`."""


class CompileError(OffarrayError, RuntimeError):
    """A kernel could not be built."""


class DeviceError(OffarrayError, RuntimeError):
    """A device is missing or does not work.

    Attributes
    ----------
    begun : bool
        Whether memory may have been written before it was raised: then values that were to be overwritten are gone.
    """

    begun = True


class MissingLibraryError(DeviceError):
    """A package with a device's libraries, or its bindings, is not installed."""


class NoDeviceError(DeviceError):
    """There is no device, its driver is not there or does not suit, or somebody else has it; it says what to do."""


class DeviceLostError(DeviceError):
    """A device stopped working in the middle: what the host has stays, and work goes on there."""


class LostValueError(DeviceError):
    """A value was on a device alone when that stopped working: it has to be computed again."""


class CheckError(OffarrayError, RuntimeError):
    """`check` found a kernel launch that breaks the rules of aliasing or bounds: a defect of offarray itself."""


class MemoryLimitError(OffarrayError, MemoryError):
    """Memory does not suffice: a device's, or what the settings `memory_limit` and `device_memory` allow.

    Attributes
    ----------
    begun : bool
        As in `DeviceError`.
    """

    begun = True


class TransferError(OffarrayError, RuntimeError):
    """Data would have moved between host and device while `transfer_guard="disallow"`."""


# What a driver answers -> the exception, what the answer means, and what to do.
ANSWERS: dict[str, tuple[type[DeviceError], str, str]] = {
    **{
        f"CUDA_ERROR_{name}": (NoDeviceError, meaning, remedy)
        for name, meaning, remedy in (
            ("NO_DEVICE", "the driver sees no device", "check CUDA_VISIBLE_DEVICES and the device files"),
            ("INVALID_DEVICE", "there is no device of this number", "choose another one"),
            ("INSUFFICIENT_DRIVER", "the driver is too old", "update NVIDIA's driver on the host"),
            (
                "SYSTEM_DRIVER_MISMATCH", "the driver's library and the kernel's module are of different versions",
                "reboot after the driver's update, or give the container the host's library (docs/containers.md)",
            ),
            (
                "COMPAT_NOT_SUPPORTED_ON_DEVICE",
                "a forward-compatible library (cuda-compat) runs on a device that it is not for",
                "take cuda-compat out of LD_LIBRARY_PATH and use the host's own libcuda.so.1",
            ),
            (
                "SYSTEM_NOT_READY", "the driver's services have not started",
                "start nvidia-fabricmanager on the host (machines with NVSwitch need it)",
            ),
            (
                "STUB_LIBRARY", "the library found is the toolkit's stub, no driver",
                "take the toolkit's lib/stubs folder out of LD_LIBRARY_PATH, and install the driver",
            ),
            (
                "DEVICE_UNAVAILABLE", "another process has the device for itself (exclusive or prohibited mode)",
                "end that process (nvidia-smi lists them), or run nvidia-smi -c DEFAULT",
            ),
            (
                "OPERATING_SYSTEM", "the operating system refused the driver a device file",
                "give the process the right to read and write /dev/nvidia*",
            ),
            (
                "UNSUPPORTED_PTX_VERSION", "the driver is older than the code that is made for it",
                "update NVIDIA's driver on the host",
            ),
        )
    },
    **{
        f"CUDA_ERROR_{name}": (DeviceLostError, meaning, "start the program anew to use the device again")
        for name, meaning in (
            ("ILLEGAL_ADDRESS", "code on the device used memory that is not there"),
            ("MISALIGNED_ADDRESS", "code on the device used a misaligned address"),
            ("INVALID_ADDRESS_SPACE", "code on the device used memory of another kind"),
            ("ILLEGAL_INSTRUCTION", "code on the device has an instruction that it does not know"),
            ("INVALID_PC", "code on the device jumped to nowhere"),
            ("HARDWARE_STACK_ERROR", "the stack of code on the device was exhausted or damaged"),
            ("LAUNCH_FAILED", "code on the device failed"),
            ("LAUNCH_TIMEOUT", "the operating system ended code on the device that ran for too long"),
            ("ASSERT", "code on the device found an assertion false"),
            ("ECC_UNCORRECTABLE", "the device's memory has an error that cannot be corrected"),
            ("NVLINK_UNCORRECTABLE", "a link between devices has an error that cannot be corrected"),
            ("CONTAINED", "the device's memory has an error"),
            ("CONTEXT_IS_DESTROYED", "somebody destroyed the device's context"),
            ("DEINITIALIZED", "the driver is shutting down"),
            ("EXTERNAL_DEVICE", "a device outside the driver's control failed"),
            ("TENSOR_MEMORY_LEAK", "code on the device left tensor memory behind"),
            ("MPS_CLIENT_TERMINATED", "the service that shares the device (MPS) ended this process's work"),
        )
    },
    "CUDA_ERROR_UNKNOWN": (
        DeviceError, "the driver failed, often because /dev/nvidia-uvm is missing",
        "run `nvidia-modprobe -u -c=0` on the host, or reboot it; in a container pass /dev/nvidia-uvm too",
    ),
}  # fmt: skip


def answered(call: str, code: str, words: str) -> OffarrayError:
    """The exception for what a driver's function answered."""
    if "OUT_OF_MEMORY" in code:
        return MemoryLimitError(f"{call}: the device has not enough memory")
    kind, meaning, remedy = ANSWERS.get(code, (DeviceError, words, ""))
    return kind(f"{call}: {code}" + (f": {meaning}" if meaning else "") + (f"; {remedy}" if remedy else ""))
