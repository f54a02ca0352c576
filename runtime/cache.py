"""Code on disk: private to the user, verified before it is loaded, bounded in size.

A file holds a header (magic, digest of key and content) and the content.  Nothing here ever stops a program: without a
folder that can be trusted and written, kernels are simply built anew.  Loading is on the way to the first result of
every process, so it calls the system directly, and imports no library of cryptography.
"""

from __future__ import annotations

import os
import stat
import time

try:
    from _blake2 import blake2b  # without OpenSSL, which hashlib loads
except ImportError:
    from hashlib import blake2b

from . import trace
from .config import settings

MAGIC = b"offarray code 2\n"  # changes with the format of the file
_SIZE = 32  # bytes of a digest
_HEADER = len(MAGIC) + _SIZE
_FRESH = 3600  # seconds for which a use need not be noted again
_LATELY = 600  # seconds
SELDOM = 256  # one in so many first stores of a process looks at the size of the folder

_number = 0  # of the files that this process has written
_total: dict[str, int] = {}  # folder -> bytes in it, as far as this process knows
_told: set[str] = set()


def folder() -> str | None:
    """Where code is kept: the setting, or offarray under the user's cache folder; None if there is no home."""
    if settings.cache_dir:
        return os.path.abspath(os.path.expanduser(settings.cache_dir))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "offarray") if os.path.isabs(base) else None


def _tell(place: str, reason: str) -> None:
    """Say once for each place why it is not used."""
    if place not in _told:
        _told.add(place)
        trace.log(1, f"code cache: {place} is not used: {reason}")


def _mine(status: os.stat_result) -> bool:
    """Whether nobody else may have written what `status` describes."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _trusted(place: str, create: bool) -> bool:
    try:
        if create:
            os.makedirs(place, mode=0o700, exist_ok=True)
        status = os.stat(place)
    except FileNotFoundError:
        return False
    except OSError as error:
        _tell(place, str(error))
        return False
    if not stat.S_ISDIR(status.st_mode) or not _mine(status):
        _tell(place, "not a folder that only its user can write")
        return False
    return True


def digest(*parts: str | bytes) -> str:
    """Content hash of texts and bytes, 64 hexadecimal digits."""
    found = blake2b(digest_size=_SIZE)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.hexdigest()


def _name(key: str) -> str:
    return blake2b(key.encode(), digest_size=20).hexdigest() + ".o"


def _digest(key: str, data: bytes) -> bytes:
    found = blake2b(key.encode() + b"\0", digest_size=_SIZE)
    found.update(data)
    return found.digest()


def _whole(path: str) -> tuple[bytes, os.stat_result] | None:
    """Content of a file and what the system says of it; None if others can write it."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        status = os.fstat(descriptor)
        if not _mine(status):
            return None
        pieces = [os.read(descriptor, status.st_size + 1)]
        while pieces[-1]:  # a read may give less than there is
            pieces.append(os.read(descriptor, status.st_size + 1))
        return b"".join(pieces), status
    finally:
        os.close(descriptor)


def load(key: str, counted: bool = True) -> bytes | None:
    """The content stored under `key`, or None; a hit counts as a use, and is `counted` among the kernels."""
    place = folder() if settings.cache else None
    if place is None or not _trusted(place, create=False):
        return None
    path = os.path.join(place, _name(key))
    try:
        found = _whole(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        _tell(path, str(error))
        return None
    if found is None:
        _tell(path, "others can write it")
        return None
    whole, status = found
    data = whole[_HEADER:]
    if whole[: len(MAGIC)] != MAGIC or whole[len(MAGIC) : _HEADER] != _digest(key, data):
        _tell(path, "damaged, or of another version")
        return None
    if time.time() - status.st_mtime > _FRESH:
        try:
            os.utime(path)
        except OSError:
            pass  # a read-only cache still serves; it only forgets the order of use
    if counted:
        trace.count("cache_hits")
    return data


def lately() -> bool:
    """Whether something new was stored in the last minutes: then more is likely to come."""
    place = folder() if settings.cache else None
    try:
        return place is not None and time.time() - os.stat(place).st_mtime < _LATELY
    except OSError:
        return False


def store(key: str, data: bytes) -> None:
    """Keep `data` under `key`, all of it or nothing, and remove what was used longest ago beyond the limit."""
    global _number
    size = _HEADER + len(data)
    place = folder() if settings.cache else None
    if place is None or size > settings.cache_size or not _trusted(place, create=True):
        return
    _number += 1
    name = _name(key)
    temporary = os.path.join(place, f".{name[:-2]}.{os.getpid()}.{_number}.{time.time_ns()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                rest = memoryview(MAGIC + _digest(key, data) + data)
                while rest:  # a full disk may take a part
                    rest = rest[file.write(rest) or 0 :]
            os.replace(temporary, os.path.join(place, name))
        except BaseException:
            _remove(temporary)
            raise
    except OSError as error:
        _tell(place, str(error))
        return
    if place not in _total and size * SELDOM < settings.cache_size and int(name[:4], 16) % SELDOM:
        return  # adding up a large folder takes longer than building a kernel: few of a process' first stores do it
    _total[place] = _total[place] + size if place in _total else sum(entry[1] for entry in _entries(place))
    if _total[place] > settings.cache_size:
        _shrink(place)


def _entries(place: str) -> list[tuple[int, int, str]]:
    """(time of last use, size, path) of every file of the cache."""
    found = []
    try:
        names = [name for name in os.listdir(place) if name.endswith((".o", ".tmp"))]
    except OSError:
        return []
    for path in (os.path.join(place, name) for name in names):
        try:
            status = os.lstat(path)
        except OSError:
            continue  # another process removed it
        found.append((status.st_mtime_ns, status.st_size, path))
    return found


def _shrink(place: str) -> None:
    """Remove the files used longest ago until a tenth of the limit is free, so that this is rarely needed."""
    entries = sorted(_entries(place))
    total = sum(size for _, size, _ in entries)
    goal = settings.cache_size - settings.cache_size // 10
    for _, size, path in entries[:-1]:  # the newest was stored just now
        if total <= goal:
            break
        _remove(path)
        total -= size
    _total[place] = total


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # gone already, or not ours to remove


def clear() -> None:
    """Remove every stored kernel."""
    place = folder()
    if place is not None and _trusted(place, create=False):
        for _, _, path in _entries(place):
            _remove(path)
        _total.pop(place, None)
