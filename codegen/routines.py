"""The routines, in the language of routine.py; `first` and `last` bound the part of the work that one call does.

`x` is read, `out` written; counts and flags are left in arrays of the caller's.  Nothing is checked here: indices are
proved to lie in bounds before.  Parameters: T, K, I and so on are dtypes; KIND is 0 for signed integers, 1 for unsigned
ones, 2 for floats; with WIDE the processor packs vectors.
"""
# mypy: disable-error-code="name-defined,no-any-return"
# ruff: noqa: F821

from __future__ import annotations

from typing import Any, TypeAlias

# What annotations name: dtypes, pointers to them, and the parameters of a routine.
i8: TypeAlias = Any
f8: TypeAlias = Any
p_i8: TypeAlias = Any
p_u8: TypeAlias = Any
p_u1: TypeAlias = Any
p_f8: TypeAlias = Any
p_T: TypeAlias = Any
p_K: TypeAlias = Any
p_I: TypeAlias = Any

DIGIT, BUCKETS = 11, 2048  # bits that one pass of a sort looks at, and their values


# ------------------------------------------------------------------ choosing
def count_true(first: i8, last: i8, mask: p_u1, out: p_i8, at: i8) -> None:
    """out[at] = number of bytes that are not zero."""
    n = to_i8(0)
    for i in range(first, last):
        n += to_i8(mask[i] != 0)
    out[at] = n


def compress(first: i8, last: i8, mask: p_u1, x: p_T, out: p_T, starts: p_i8, part: i8) -> None:
    """Elements of x under the mask, one after the other, from out[starts[part]] to starts[part + 1].

    With PLACES their positions, and nobody looks at x.
    """
    k = starts[part]
    end = starts[part + 1]
    i = first
    while i + 64 <= last and k + 64 <= end:
        if WIDE:
            for j in range(i, i + 64, 8):
                pack(out, k, j if PLACES else x, mask, j)
        else:
            for j in range(i, i + 64):
                out[k] = j if PLACES else x[j]
                k += to_i8(mask[j] != 0)
        i += 64
    while k < end:
        out[k] = i if PLACES else x[i]
        k += to_i8(mask[i] != 0)
        i += 1


def expand(first: i8, last: i8, mask: p_u1, x: p_T, out: p_T, starts: p_i8, part: i8) -> None:
    """out under the mask = elements of x, in order."""
    k = starts[part]
    for i in range(first, last):
        if mask[i] != 0:
            out[i] = x[k]
            k += 1


def bounds(first: i8, last: i8, x: p_T, out: p_i8, at: i8) -> None:
    """out[at], out[at + 1] = least and greatest of the integers."""
    low = x[first]
    high = low
    for i in range(first, last):
        v = x[i]
        low = v if v < low else low
        high = v if v > high else high
    out[at] = to_i8(low)
    out[at + 1] = to_i8(high)


def scatter(first: i8, last: i8, x: p_T, index: p_I, out: p_T, extent: i8, step: i8) -> None:
    """out[index] = x, in order; `step` 0 writes one value everywhere."""
    for i in range(first, last):
        j = to_i8(index[i])
        out[j + (extent if j < 0 else 0)] = x[i * step]


def scatter_add(first: i8, last: i8, x: p_T, index: p_I, out: p_T, extent: i8, step: i8) -> None:
    """out[index] op= x, one after the other."""
    for i in range(first, last):
        j = to_i8(index[i])
        j = j + (extent if j < 0 else 0)
        v = x[i * step]
        if OP == 0:
            out[j] = out[j] + v
        elif OP == 1:
            out[j] = out[j] - v
        else:
            out[j] = out[j] * v


# ------------------------------------------------------------------ sorting
def to_keys(first: i8, last: i8, x: p_T, keys: p_K, counts: p_i8, flags: p_i8, base: i8) -> None:
    """Unsigned keys in the order of x, and how often each digit of them comes.

    Integers are taken from `base`, their least.  Of floats NaNs come last; flags tell of zeros: 1 positive, 2 negative.
    With EQUAL both zeros have one key, and all NaNs.
    """
    seen = to_i8(0)
    for i in range(first, last):
        if KIND == 2:
            v = x[i]
            if EQUAL:
                v = v + 0.0
            b = bits(v)
            if v == 0.0:
                seen = seen | (1 if b == 0 else 2)
            if v != v:
                b = b & (SIGN - 1)
                if EQUAL:
                    b = to_K(SIGN - 1)
            key = b ^ SIGN if b < SIGN else ~b
        else:
            key = to_K(x[i]) - to_K(base)
        keys[i] = key
        for d in range(0, DIGITS):
            at = d * BUCKETS + to_i8((key >> to_K(d * DIGIT)) & (BUCKETS - 1))
            counts[at] = counts[at] + 1
    flags[0] = flags[0] | seen


def from_keys(first: i8, last: i8, keys: p_K, out: p_T, base: i8) -> None:
    """What `to_keys` made keys of."""
    for i in range(first, last):
        key = keys[i]
        if KIND == 2:
            out[i] = floats(key ^ SIGN if key >= SIGN else ~key)
        else:
            out[i] = to_T(key + to_K(base))


def radix(first: i8, last: i8, keys: p_K, out: p_K, starts: p_i8, shift: i8) -> None:
    """One pass: keys in the order of one digit, equal ones in their own."""
    for i in range(first, last):
        key = keys[i]
        d = to_i8((key >> to_K(shift)) & (BUCKETS - 1))
        at = starts[d]
        out[at] = key
        starts[d] = at + 1


def radix_first(first: i8, last: i8, keys: p_K, out: p_K, places: p_I, starts: p_i8, shift: i8) -> None:
    """The first pass of an argsort, whose places are those of the keys."""
    for i in range(first, last):
        key = keys[i]
        d = to_i8((key >> to_K(shift)) & (BUCKETS - 1))
        at = starts[d]
        out[at] = key
        places[at] = to_I(i)
        starts[d] = at + 1


def radix_pairs(
    first: i8, last: i8, keys: p_K, before: p_I, out: p_K, places: p_I, starts: p_i8, shift: i8
) -> None:  # fmt: skip
    """A further pass of an argsort."""
    for i in range(first, last):
        key = keys[i]
        d = to_i8((key >> to_K(shift)) & (BUCKETS - 1))
        at = starts[d]
        out[at] = key
        places[at] = before[i]
        starts[d] = at + 1


def distinct(first: i8, last: i8, x: p_T, out: p_T, places: p_i8, found: p_i8) -> None:
    """The distinct elements of a sorted array, and where each begins; one NaN with ALIKE."""
    k = to_i8(0)
    for i in range(first, last):
        v = x[i]
        new = i == first
        if not new:
            w = x[i - 1]
            new = v != w
            if ALIKE:
                new = new & ((v == v) | (w == w))
        if new:
            out[k] = v
            places[k] = i
            k += 1
    found[0] = k


def ranks(first: i8, last: i8, x: p_T, order: p_i8, out: p_i8) -> None:
    """Number of each element among the distinct ones; `order` sorts x."""
    k = to_i8(0)
    for i in range(first, last):
        v = x[order[i]]
        if i > first:
            w = x[order[i - 1]]
            new = v != w
            if ALIKE:
                new = new & ((v == v) | (w == w))
            k += to_i8(new)
        out[order[i]] = k


# ------------------------------------------------------------------ searching
def to_ordered(first: i8, last: i8, x: p_T, out: p_i8) -> None:
    """Integers in the order of x; NaNs come last, and zeros are equal."""
    for i in range(first, last):
        if KIND == 2:
            v = x[i] + 0.0
            b = to_i8(bits(v))
            b = b ^ ((b >> 63) & 9223372036854775807)
            out[i] = b if v == v else 9223372036854775807
        else:
            out[i] = to_i8(x[i])


def guide(first: i8, last: i8, x: p_T, out: p_i8, buckets: i8, low: f8, scale: f8) -> None:
    """out[b] = how many elements of an ascending table lie in buckets before b, of `buckets` even ones."""
    done = to_i8(0)
    for i in range(first, last):
        place = (to_f8(x[i]) - low) * scale
        b = to_i8(place) if place < to_f8(buckets - 1) else buckets - 1
        b = 0 if place < 0.0 else b
        while done <= b:
            out[done] = i
            done += 1
    while done <= buckets:
        out[done] = last
        done += 1


def search(
    first: i8, last: i8, x: p_T, table: p_i8, out: p_i8, starts: p_i8, buckets: i8, low: f8, scale: f8
) -> None:  # fmt: skip
    """Where each x would stand in the table (of `to_ordered`): before equal ones, or with RIGHT behind them.

    `starts` (of `guide`) says where to look.
    """
    for i in range(first, last):
        place = (to_f8(x[i]) - low) * scale
        b = to_i8(place) if place < to_f8(buckets - 1) else buckets - 1
        b = 0 if place < 0.0 else b
        if KIND == 2:
            v = to_f8(x[i]) + 0.0
            p = to_i8(bits(v))
            p = p ^ ((p >> 63) & 9223372036854775807)
            key = p if v == v else 9223372036854775807
        else:
            key = to_i8(x[i])
        base = starts[b]
        n = starts[b + 1] - base
        while n > 0:
            half = n >> 1
            t = table[base + half]
            if RIGHT:
                behind = t <= key
            else:
                behind = t < key
            base = base + half + 1 if behind else base
            n = n - half - 1 if behind else half
        out[i] = base


def listed(first: i8, last: i8, x: p_T, table: p_u1, out: p_u1, low: i8, size: i8) -> None:
    """out = table[x - low], 0 beyond its ends; the opposite with INVERT."""
    for i in range(first, last):
        j = to_i8(x[i]) - low
        inside = (j >= 0) & (j < size)
        v = table[j if inside else 0] & to_u1(inside)
        out[i] = v ^ 1 if INVERT else v


def found(first: i8, last: i8, x: p_T, table: p_T, places: p_i8, out: p_u1, size: i8) -> None:
    """Whether x stands at its place in the table; the opposite with INVERT."""
    for i in range(first, last):
        j = places[i]
        v = to_u1((table[j if j < size else 0] == x[i]) & (j < size))
        out[i] = v ^ 1 if INVERT else v


def interpolate(
    first: i8, last: i8, x: p_f8, grid: p_f8, values: p_f8, out: p_f8, size: i8, left: f8, right: f8, starts: p_i8,
    buckets: i8, low: f8, scale: f8,
) -> None:  # fmt: skip
    """Linear interpolation between grid points, with NumPy's order of operations."""
    for i in range(first, last):
        v = x[i]
        place = (v - low) * scale
        b = to_i8(place) if place < to_f8(buckets - 1) else buckets - 1
        b = 0 if place < 0.0 else b
        base = starts[b]
        n = starts[b + 1] - base
        while n > 0:
            half = n >> 1
            behind = grid[base + half] <= v
            base = base + half + 1 if behind else base
            n = n - half - 1 if behind else half
        base = base - 1
        y = v
        if v == v:
            if base < 0:
                y = left
            elif v > grid[size - 1]:
                y = right
            elif base == size - 1 or grid[base] == v:
                y = values[base]
            else:
                slope = (values[base + 1] - values[base]) / (grid[base + 1] - grid[base])
                y = slope * (v - grid[base]) + values[base]
                if y != y:
                    y = slope * (v - grid[base + 1]) + values[base + 1]
                    if y != y and values[base] == values[base + 1]:
                        y = values[base]
        out[i] = y


# ------------------------------------------------------------------ selecting
def between(first: i8, last: i8, x: p_T, bounds: p_T, out: p_T, found: p_i8) -> None:
    """Elements from bounds[0] to bounds[1]; found: how many are less, lie there, are NaNs."""
    low = bounds[0]
    high = bounds[1]
    less = to_i8(0)
    bad = to_i8(0)
    k = to_i8(0)
    for i in range(first, last):
        v = x[i]
        out[k] = v
        less += to_i8(v < low)
        k += to_i8((v >= low) & (v <= high))
        if KIND == 2:
            bad += to_i8(v != v)
    found[0] = less
    found[1] = k
    found[2] = bad


# ------------------------------------------------------------------ counting
def tally(first: i8, last: i8, x: p_T, out: p_i8) -> None:
    """out[x] += 1"""
    for i in range(first, last):
        j = to_i8(x[i])
        out[j] = out[j] + 1


def weigh(first: i8, last: i8, x: p_T, weights: p_f8, out: p_f8) -> None:
    """out[x] += weights"""
    for i in range(first, last):
        j = to_i8(x[i])
        out[j] = out[j] + weights[i]


def spread(
    first: i8, last: i8, x: p_T, edges: p_f8, bins: i8, low: f8, high: f8, scale: f8, out: p_i8
) -> None:  # fmt: skip
    """How many x lie between each pair of even edges, the last edge included."""
    for i in range(first, last):
        v = to_f8(x[i])
        if v >= low and v <= high:
            j = to_i8((v - low) * scale)
            j = j if j < bins else bins - 1
            j = j - to_i8(v < edges[j])
            j = j + to_i8((v >= edges[j + 1]) & (j != bins - 1))
            out[j] = out[j] + 1


# ------------------------------------------------------------------ sums of products
def correlate(first: i8, last: i8, x: p_T, taps: p_T, out: p_T, size: i8, shift: i8, extent: i8) -> None:
    """out[i] = sum of x[i - shift + j] * taps[j] over what x has."""
    start = first
    while start < last:
        stop = start + 512 if start + 512 < last else last
        for i in range(start, stop):
            out[i] = to_T(0)
        for j in range(0, size):
            tap = taps[j]
            low = start if start + j >= shift else shift - j
            high = stop if stop - shift + j <= extent else extent + shift - j
            for i in range(low, high):
                out[i] = out[i] + x[i - shift + j] * tap
        start = stop
