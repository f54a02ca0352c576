"""docs/coverage.md is what the tables state and calls bear out, and the number of names that run here only grows."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from . import coverage

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "coverage.md"
LEAST = 464  # names that are kernels, compositions, library steps or views: raise it, never lower it
FUSED = 278  # of them with kernels, or compositions: raise it, never lower it
MOST = 11  # names that are host fallbacks: lower it, never raise it


@pytest.fixture(scope="module")
def table() -> list[coverage.Row]:
    """Every name, called once."""
    return coverage.rows()


def test_calls_bear_out_what_the_tables_state(table: list[coverage.Row]) -> None:
    assert coverage.contradictions(table) == []


def test_coverage_only_grows(table: list[coverage.Row]) -> None:
    many = coverage.counts(table)
    run = sum(many[say] for say in (*coverage.RUN, coverage.VIEW))
    assert many[coverage.HOST] <= MOST
    assert run >= LEAST or not _same_numpy()
    assert many[coverage.KERNEL] + many[coverage.COMPOSED] + len(coverage.AT_HAND) >= FUSED or not _same_numpy()
    assert f"{run} of {len(table)} names run here" in coverage.text(table)


def _same_numpy() -> bool:
    """Whether the document was made with this NumPy, whose names differ from others'."""
    return f"with NumPy {numpy.__version__};" in DOCUMENT.read_text()


def test_no_fallback_is_seen_where_none_is_stated(table: list[coverage.Row]) -> None:
    assert {r.name.title for r in table if r.seen == coverage.HOST and r.stated != coverage.HOST} == set()


def test_document_is_up_to_date(table: list[coverage.Row]) -> None:
    if not _same_numpy():
        pytest.skip("the document was made with another NumPy, whose names differ")
    assert DOCUMENT.read_text() == coverage.text(table), "python -m tests.compat.coverage > docs/coverage.md"
