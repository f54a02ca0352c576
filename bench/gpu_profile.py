"""Where the time of an evaluation on a device goes, as Python sees it."""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import time

os.environ["OFFARRAY_DEVICE"] = "cuda"
import numpy

import offarray as np
from offarray.runtime import cuda


def main() -> None:
    """Profile a + 0.5 * b, small and large."""
    np.config(eager_size=0)
    for n, times in ((5000, 500), (1 << 26, 50)):
        a, b = np.evaluate(np.asarray(numpy.random.rand(n)) + 0, np.asarray(numpy.random.rand(n)) + 0)

        def work(times: int, a: object = a, b: object = b) -> None:
            for _ in range(times):
                np.evaluate(a + 0.5 * b)
            cuda.device().synchronize()

        work(10)
        for state in ("ignore", "warn"):
            with numpy.errstate(all=state):
                work(10)
                start = time.perf_counter()
                work(times)
                print(n, state, round(1e6 * (time.perf_counter() - start) / times, 1), "us")
        profile = cProfile.Profile()
        profile.enable()
        work(times)
        profile.disable()
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(14)


if __name__ == "__main__":
    main()
