"""The front of public functions and methods: small work on ready arrays, before anything in Python is asked.

in: `_dispatch.public` and `_methods.install`; out: NumPy's function on the arrays themselves, as `_reach.quick` does.
The form in C is a callable of its own; this one leaves everything to what stands behind it, which asks `quick` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

COMPILED = False


def front(late: Callable[..., Any], real: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """A callable that runs NumPy's `real` on small work and `late` on any other.

    Parameters
    ----------
    **how
        Its `name`; what `_reach` says of it: `free`, `light`, `wide`, `joins`, `told`; `bare` if it gives no arrays;
        `writes` if it writes its first operand.
    """
    return late


def learn(give_back: Callable[[Any, list[Any]], Any]) -> None:
    """The form in C gives back by itself what NumPy returned."""
