"""Fixtures of the semantics tests."""

from __future__ import annotations

import pytest

from tests import twice


@pytest.fixture(params=list(twice.MODES))
def mode(request: pytest.FixtureRequest) -> str:
    """Each way of running the library; results must not depend on it."""
    return str(request.param)
