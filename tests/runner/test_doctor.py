"""`python -m offarray doctor`: each cause of trouble is found, and told with what mends it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from offarray import _doctor
from offarray._doctor import BAD, NOTE, OK, Finding, findings
from offarray._facts import Driver, Facts, Gpu
from offarray.codegen.nvptx import reached

H200 = Gpu("NVIDIA H200", "sm_90", "sm_90", 150 << 30, 149 << 30)
NODES = {"/dev/nvidia-uvm": True, "/dev/nvidia0": True, "/dev/nvidiactl": True}
FINE = Facts(
    system="Linux 6.8", machine="x86_64", python="3.12.3",
    packages={
        "numpy": "2.4.6", "llvmlite": "0.50.0", "cuda-bindings": "13.0", "nvidia-nvvm": "13.0", "nvmath-python": "1.0",
    },
    processor="some", features=("avx2",), cores=8, memory=1 << 36, cache="/cache", cards=1, module="580.95",
    nodes=NODES, library="/lib/libcuda.so.1", library_version="580.95", driver=Driver(13000, gpus=(H200,)),
    libdevice="/lib/libdevice.10.bc", libraries=dict.fromkeys(_doctor.NEEDED, "/lib/some.so"),
)  # fmt: skip


def told(**changes: Any) -> list[Finding]:
    return [f for f in findings(dataclasses.replace(FINE, **changes), trials=False) if f.state != OK]


def test_nothing_to_say_where_all_is_well() -> None:
    assert told() == []
    assert any(f.topic == "cuda:0" and "149.0 GiB free" in f.text for f in findings(FINE, trials=False))


def test_a_machine_without_any_device_is_fine() -> None:
    nothing = {"cards": 0, "module": "", "nodes": {}, "library": "", "library_version": "", "driver": Driver()}
    (only,) = told(**nothing)
    assert only.state == NOTE and "everything runs on the processor" in only.text
    assert any(f.state == BAD for f in told(**nothing, device="cuda")), "but for whoever asks for one"


def packages(**changes: str | None) -> dict[str, str | None]:
    return {**FINE.packages, **changes}


TROUBLE: dict[str, tuple[dict[str, Any], str, str, str]] = {
    # what is wrong -> (facts, state, words of the finding, words of the remedy)
    "no library": ({"library": "", "driver": Driver()}, BAD, "libcuda.so.1 is not found", "install NVIDIA's driver"),
    "no library in a container": (
        {"library": "", "driver": Driver(), "container": "docker"}, BAD, "libcuda.so.1", "NVIDIA_DRIVER_CAPABILITIES",
    ),
    "no module": ({"module": "", "nodes": {}},
        BAD, "1 NVIDIA devices on the PCI bus, but the module", "modprobe nvidia"),
    "no card passed through": (
        {"module": "", "nodes": {}, "cards": 0}, BAD, "no NVIDIA device on the PCI bus", "virtual machine",
    ),
    "versions apart": ({"library_version": "570.1"}, BAD, "library 570.1, kernel module 580.95", "reboot"),
    "versions apart in a container": (
        {"library_version": "570.1", "container": "lxc"}, BAD, "library 570.1", "remove the driver's packages",
    ),
    "driver too old": ({"driver": Driver(11040)}, BAD, "speaks CUDA 11.4, and 12.0 is needed", "update"),
    "driver refuses": (
        {"driver": Driver(0, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")}, BAD, "different versions", "reboot",
    ),
    "fabric not ready": (
        {"driver": Driver(0, "CUDA_ERROR_SYSTEM_NOT_READY")}, BAD, "services", "nvidia-fabricmanager",
    ),
    "an answer never heard of": (
        {"driver": Driver(0, "CUDA_ERROR_NEW", "some words")}, BAD, "CUDA_ERROR_NEW: some words", "dmesg",
    ),
    "driver without devices": ({"driver": Driver(13000)}, BAD, "has no device", "CUDA_VISIBLE_DEVICES"),
    "unknown and newer": (
        {"driver": Driver(13000, gpus=(H200._replace(arch="sm_150", target="sm_121"),))}, NOTE,
        "kernels are made for sm_121", "llvmlite",
    ),
    "too old": (
        {"driver": Driver(12000, gpus=(H200._replace(arch="sm_61", target=""),))}, BAD, "older than sm_70", "processor",
    ),
    "unknown to llvmlite": (
        {"driver": Driver(13000, gpus=(H200._replace(arch="sm_150", target=""),))}, BAD, "no code for it", "llvmlite",
    ),
    "full": ({"driver": Driver(13000, gpus=(H200._replace(free=1 << 20),))}, BAD, "0.0 GiB free", "other processes"),
    "taken": (
        {"driver": Driver(13000, gpus=(H200._replace(problem="CUDA_ERROR_DEVICE_UNAVAILABLE"),))}, BAD,
        "CUDA_ERROR_DEVICE_UNAVAILABLE", "nvidia-smi -c DEFAULT",
    ),
    "exclusive": ({"driver": Driver(13000, gpus=(H200._replace(mode="exclusive"),))}, NOTE, "one process", "DEFAULT"),
    "no permission": (
        {"nodes": {**NODES, "/dev/nvidia0": False}}, BAD, "no permission to read and write /dev/nvidia0", "group",
    ),
    "node missing": (
        {"nodes": {k: v for k, v in NODES.items() if "uvm" not in k}},
        BAD, "missing: /dev/nvidia-uvm", "nvidia-modprobe",
    ),
    "node missing in a container": (
        {"nodes": {"/dev/nvidiactl": True}, "container": "podman"},
        BAD, "/dev/nvidia-uvm, /dev/nvidia0", "nvidia.com/gpu=all",
    ),
    "hidden": ({"environ": {"CUDA_VISIBLE_DEVICES": ""}}, BAD, "hides every device", "unset"),
    "hidden by -1": ({"environ": {"CUDA_VISIBLE_DEVICES": "-1"}}, BAD, "hides every device", "unset"),
    "some are hidden": ({"environ": {"CUDA_VISIBLE_DEVICES": "1"}}, NOTE, "the first of these", ""),
    "void": (
        {"environ": {"NVIDIA_VISIBLE_DEVICES": "void"}, "container": "docker", "nodes": {}},
        BAD, "gets no device", "--gpus all",
    ),
    "graphics only": (
        {"environ": {"NVIDIA_DRIVER_CAPABILITIES": "graphics,utility"}, "container": "docker"},
        BAD, "leaves out compute",
        "compute,utility",
    ),
    "no bindings": ({"packages": packages(**{"cuda-bindings": None})},
        BAD, "interface to the driver", "offarray[cuda]"),
    "no nvmath": ({"packages": packages(**{"nvmath-python": None})}, NOTE, "interface to libraries", "offarray[cuda]"),
    "no libdevice": ({"libdevice": ""}, BAD, "mathematical functions", "pip install nvidia-nvvm"),
    "no cufft": ({"libraries": {k: v for k, v in FINE.libraries.items() if k != "cufft"}}, NOTE,
                 "Fourier transforms run on the processor", "pip install nvidia-cufft"),
    "no cufft of CUDA 12": (
        {"libraries": {}, "driver": Driver(12080, gpus=(H200,))}, NOTE, "Fourier", "pip install nvidia-cufft-cu12",
    ),
    "no cache": ({"cache_error": "read-only file system"}, NOTE, "built anew", "OFFARRAY_CACHE_DIR"),
    "few processors": ({"cores_limit": 2.0}, NOTE, "8 threads share 2 processors", "OFFARRAY_THREADS=2"),
    "little memory": ({"memory_limit": 1 << 32}, NOTE, "4.0 GiB of 64.0 GiB", "OFFARRAY_MEMORY_LIMIT"),
    "no llvmlite": ({"packages": packages(llvmlite=None)}, BAD, "not installed", "pip install llvmlite"),
}  # fmt: skip


@pytest.mark.parametrize("cause", TROUBLE)
def test_each_cause_is_told_with_its_remedy(cause: str) -> None:
    changes, state, words, remedy = TROUBLE[cause]
    said = told(**changes)
    assert [f for f in said if f.state == state and words in f.text and remedy in f.remedy], said
    text = _doctor.show(said)
    assert words in text and (not remedy or "      -> " in text)


def test_every_bad_finding_has_a_remedy() -> None:
    for changes, *_ in TROUBLE.values():
        assert all(f.remedy for f in told(**changes) if f.state == BAD)


def test_architectures() -> None:
    assert reached("sm_90") == "sm_90" and reached("sm_61") is None
    newest = reached("sm_999")
    assert newest is not None and 100 <= int(newest[3:]) < 999, "devices to come run what is made for older ones"


def test_the_command() -> None:
    environ = {**os.environ, "OFFARRAY_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-m", "offarray", "doctor"]
    ran = subprocess.run([*command, "--json"], capture_output=True, text=True, env=environ, check=False)
    data = json.loads(ran.stdout)
    by_topic = {f["topic"]: f for f in data["findings"]}
    assert by_topic["self test, processor"]["state"] == OK
    assert data["facts"]["environ"]["CUDA_VISIBLE_DEVICES"] == "-1"
    assert ran.returncode == int(any(f["state"] == BAD for f in data["findings"])), ran.stderr
    wrong = subprocess.run([*command, "--jsn"], capture_output=True, text=True, env=environ, check=False)
    assert wrong.returncode == 2 and "--jsn" in wrong.stderr


def test_a_failing_self_test_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import offarray

    def broken(*args: Any) -> Any:
        raise MemoryError("no more")

    monkeypatch.setattr(offarray, "evaluate", broken)
    found = _doctor.trial("cpu")
    assert found.state == BAD and "MemoryError: no more" in found.text
    monkeypatch.setattr(offarray, "evaluate", lambda x: offarray.zeros(10_000))
    assert _doctor.trial("cpu").text == "wrong values"
