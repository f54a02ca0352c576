"""Machine code that every process needs, for x86-64, made beforehand: compiling it takes as long as compiling a kernel.

in: the text of a module; out: its image.  tests/codegen/test_ready.py makes them anew, compares, and says how this file
is written when a text has changed; until then the changed text is compiled.
"""

from __future__ import annotations

import os
import sys

from ..runtime.cache import digest
from .image import Image

IMAGES: dict[str, Image] = {
    "b107c7117324db98fef735a5f3aa34317e38387ff6d113a936bb4db3234a2c2f": Image(  # builtin.py
        bytes.fromhex(
            "4883ec284889f8488b7f088b70108b5018448b40200f1040280f1144241048c744242000000000c744240800000000c704240100"
            "0000b90100000041b901000000ff104883c428c30f1f8400000000004157415641554154534883fa030f858a0000004989f449be"
            "000000000000000041ffd64889c3498b3c2441ffd64989c6498b7c240849bd000000000000000041ffd54989c7498b7c241041ff"
            "d54989c448b80000000000000000ffd04885c0754848b80000000000000000ffd04989c54c89f74c89fe4c89e2ffd389c348b800"
            "000000000000004c89efffd04863fb48b80000000000000000ffd0eb0e48b80000000000000000ffd031c05b415c415d415e415f"
            "c366662e0f1f84000000000041574156534883fa0175634989f649bf000000000000000041ffd74889c3498b3e41ffd74989c648"
            "b80000000000000000ffd04885c0754248b80000000000000000ffd04989c74c89f7ffd389c348b800000000000000004c89ffff"
            "d04863fb48b80000000000000000ffd0eb0e48b80000000000000000ffd031c05b415e415fc3"
        ),
        {"offarray_launch_body": 0, "offarray_call_body": 80, "offarray_call_finish": 272},
        [],
        [
            (104, "PyLong_AsVoidPtr", 0),
            (135, "PyLong_AsLongLong", 0),
            (162, "PyErr_Occurred", 0),
            (179, "PyEval_SaveThread", 0),
            (207, "PyEval_RestoreThread", 0),
            (225, "PyLong_FromLong", 0),
            (239, "PyErr_BadArgument", 0),
            (288, "PyLong_AsVoidPtr", 0),
            (313, "PyErr_Occurred", 0),
            (330, "PyEval_SaveThread", 0),
            (352, "PyEval_RestoreThread", 0),
            (370, "PyLong_FromLong", 0),
            (384, "PyErr_BadArgument", 0),
        ],
    ),
    "947df6389ae1b46df3170222ec942c1fcbfa980ea6b3b1baf9672d60d7e7500d": Image(  # crew.py
        bytes.fromhex(
            "534889fb488b7f10488b7318488b5320ff530848984889432848c74330010000005bc3666666662e0f1f84000000000041574156"
            "41554154534889fb4531f641bf0300000049bc000000000000000041bd01000000eb16660f1f8400000000004889df41ffd448c7"
            "030100000031c990488b034883f80274174885c0752231c0f04c0fb12beb19660f1f840000000000b802000000f04c0fb13b74c4"
            "0f1f4000f39048ffc1488b43384839c176c2b801000000f04c0fb133b90000000075b131c05b415c415d415e415fc30f1f440000"
            "55415741564155415453504889f34989fe4883fe027c43498d8e80000000ba01000000be02000000eb12660f1f44000048ffc248"
            "83e9804839da7d1e488b014883f80175eb488b41304885c075e2b801000000f0480fb131ebd649837e3000750f4c89f748b80000"
            "000000000000ffd04d8b7e2848bd00000000000000004531ed4c893424eb21660f1f8400000000004c89e748b800000000000000"
            "00ffd04d0b7c24284c8b342448ffcb4885db7e5e4989dc49c1e4074d01f441be01000000eb1166666666662e0f1f840000000000"
            "49ffc6498b0424498b4c24304885c975be4883f80374134883f80275a3b802000000f04d0fb12c247496f3904981fe1127000072"
            "cbbf14000000ffd5ebc24489f84883c4085b415c415d415e415f5dc3"
        ),
        {"offarray_crew_finish": 48, "offarray_crew_body": 208},
        [(71, 0), (310, 0), (357, 0)],
        [
            (326, "usleep", 0),
        ],
    ),
}  # fmt: skip


def here() -> bool:
    """Whether the images are for this processor."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def find(text: str) -> Image | None:
    """The image of a text for this processor, if there is one."""
    return IMAGES.get(digest(text)) if here() else None
