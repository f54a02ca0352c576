"""cuSOLVER: factorisations and eigenvalue problems of one matrix, stored by columns (Fortran's order), in place.

in: addresses; out: launches on the stream.  Each function gives the address of the 32-bit info of its members, which
the library writes as LAPACK does.  Matrices are n x n or m x n without gaps between their columns.
"""

from __future__ import annotations

from typing import Any

from . import cudalib
from .cudalib import Step

KINDS = {"f": 0, "d": 1, "F": 4, "D": 5}  # the library's types
REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}  # of singular and eigenvalues
LOWER, UPPER = 0, 1
VALUES, VECTORS = 0, 1
_SIZE = {"f": 4, "d": 8, "F": 8, "D": 16}


def _call(name: str, *args: Any) -> Any:
    return cudalib.call("cusolverDn", name, *args)


def _make(device: Any) -> tuple[int, int]:
    handle: int = _call("create")
    _call("set_stream", handle, int(device.stream))
    return handle, _call("create_params")


def handles(step: Step) -> tuple[int, int]:
    """The library's handle and parameters for the step's device."""
    return cudalib.handle(step.device, "cusolver", _make)  # type: ignore[no-any-return]


def _run(step: Step, name: str, *args: Any, members: tuple[int, ...] = ()) -> int:
    """Ask `name` for its scratch memory and run it; `members` are arguments at the end of both calls."""
    on_device, on_host = _call(name + "_buffer_size", *args, *members)
    info, work = step.scratch(4 * max([1, *members])), step.scratch(max(on_device, 16))
    _call(name, *args, work, on_device, step.room(on_host), on_host, info, *members)
    return info


def getrf(step: Step, char: str, n: int, a: int, pivots: int) -> int:
    """LU factorisation with row exchanges (64-bit pivots)."""
    kind = KINDS[char]
    handle, params = handles(step)
    on_device, on_host = _call("xgetrf_buffer_size", handle, params, n, n, kind, a, n, kind)  # takes no pivots
    info, work = step.scratch(4), step.scratch(max(on_device, 16))
    _call("xgetrf", handle, params, n, n, kind, a, n, pivots, kind, work, on_device, step.room(on_host), on_host, info)
    return info


def getrs(step: Step, char: str, n: int, columns: int, a: int, pivots: int, b: int) -> int:
    """Solve with LU factors, overwriting the right-hand sides."""
    kind = KINDS[char]
    info = step.scratch(4)
    _call("xgetrs", *handles(step), 0, n, columns, kind, a, n, pivots, kind, b, n, info)
    return info


def potrf(step: Step, char: str, uplo: int, n: int, a: int) -> int:
    """Cholesky factorisation of one triangle."""
    kind = KINDS[char]
    return _run(step, "xpotrf", *handles(step), uplo, n, kind, a, n, kind)


def potrf_batched(step: Step, char: str, uplo: int, n: int, matrices: int, count: int) -> int:
    """Cholesky factorisations of `count` matrices whose addresses lie at `matrices`."""
    name = {"f": "s", "d": "d", "F": "c", "D": "z"}[char] + "potrf_batched"
    info = step.scratch(4 * count)
    _call(name, handles(step)[0], uplo, n, matrices, n, info, count)
    return info


def geqrf(step: Step, char: str, m: int, n: int, a: int, tau: int) -> int:
    """QR factorisation: R above the diagonal, reflectors below it."""
    kind = KINDS[char]
    return _run(step, "xgeqrf", *handles(step), m, n, kind, a, m, kind, tau, kind)


def orgqr(step: Step, char: str, m: int, n: int, k: int, a: int, tau: int) -> int:
    """The first n columns of Q from k reflectors."""
    name = {"f": "sorgqr", "d": "dorgqr", "F": "cungqr", "D": "zungqr"}[char]
    handle = handles(step)[0]
    size = _call(name + "_buffer_size", handle, m, n, k, a, m, tau)
    info = step.scratch(4)
    work = step.scratch(max(_SIZE[char] * size, 16))
    _call(name, handle, m, n, k, a, m, tau, work, size, info)
    return info


def gesvd(step: Step, char: str, job: str, m: int, n: int, a: int, s: int, u: int, vh: int) -> int:
    """Singular values, and with job "A" or "S" vectors; m >= n, and `a` is destroyed."""
    kind, real = KINDS[char], KINDS[REAL[char]]
    code = ord(job)
    return _run(
        step, "xgesvd", *handles(step), code, code, m, n, kind, a, m, real, s, kind, u, m, kind, vh, n, kind
    )  # fmt: skip


def gesvdp(step: Step, char: str, job: str, m: int, n: int, a: int, s: int, u: int, v: int) -> tuple[int, float]:
    """The same by polar decomposition, several times as fast, with V itself in place of its adjoint.

    Gives the address of info, and by how much singular values may be wrong beyond rounding: not 0 for a matrix that had
    to be disturbed because it is close to a singular one.
    """
    kind, real = KINDS[char], KINDS[REAL[char]]
    handle, params = handles(step)
    jobs, economy = int(job != "N"), int(job != "A")
    args = (handle, params, jobs, economy, m, n, kind, a, m, real, s, kind, u, m, kind, v, n, kind)
    on_device, on_host = _call("xgesvdp_buffer_size", *args)
    info, work = step.scratch(4), step.scratch(max(on_device, 16))
    return info, float(_call("xgesvdp", *args, work, on_device, step.room(on_host), on_host, info))


def syevd(step: Step, char: str, jobs: int, uplo: int, n: int, a: int, w: int) -> int:
    """Eigenvalues in ascending order of a symmetric or Hermitian matrix; with vectors they overwrite it."""
    kind, real = KINDS[char], KINDS[REAL[char]]
    return _run(step, "xsyevd", *handles(step), jobs, uplo, n, kind, a, n, real, w, kind)


def syev_batched(step: Step, char: str, jobs: int, uplo: int, n: int, a: int, w: int, count: int) -> int:
    """`syevd` for `count` matrices that follow each other."""
    kind, real = KINDS[char], KINDS[REAL[char]]
    return _run(
        step, "xsyev_batched", *handles(step), jobs, uplo, n, kind, a, n, real, w, kind, members=(count,)
    )  # fmt: skip
