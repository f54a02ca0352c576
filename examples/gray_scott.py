"""Gray-Scott reaction and diffusion: two chemicals that grow a pattern of spots and worms.

    python -m offarray --report examples/gray_scott.py [folder] [--small]

Needs Pillow for the picture (it comes with the `test` extra).
"""

import os
import sys
import time

import numpy as np
from PIL import Image

small = "--small" in sys.argv
folder = next((a for a in sys.argv[1:] if not a.startswith("-")), "examples/out")
n, steps, spots, side = (64, 100, 6, 8) if small else (640, 1000, 110, 24)
feed, kill, diffuse_u, diffuse_v = 0.037, 0.06, 0.2, 0.1

rng = np.random.default_rng(3)
u = np.ones((n, n))
v = np.zeros((n, n))
for row, column in rng.integers(4, n - side - 4, (spots, 2)).tolist():
    u[row : row + side, column : column + side] = 0.5
    v[row : row + side, column : column + side] = 0.25
u += 0.02 * rng.random((n, n))


def laplacian(a):
    """Five-point Laplacian of the interior."""
    return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4.0 * a[1:-1, 1:-1]


start = time.perf_counter()
inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
for _ in range(steps):
    reaction = inner_u * inner_v * inner_v
    du = diffuse_u * laplacian(u) - reaction + feed * (1.0 - inner_u)
    dv = diffuse_v * laplacian(v) + reaction - (feed + kill) * inner_v
    inner_u += du
    inner_v += dv

mass, deepest = float(v.mean()), float(v.max())
seconds = time.perf_counter() - start
print(f"{steps} steps on {n}x{n} in {seconds:.2f} s")
print(f"mean of v {mass:.6f}, largest {deepest:.6f}")
assert np.isfinite(v).all() and 0.0 < mass < 0.5, "the reaction must neither die nor blow up"

os.makedirs(folder, exist_ok=True)
shade = np.clip(v[2:-2, 2:-2] / 0.4, 0.0, 1.0)
picture = np.stack([1.0 - 0.9 * shade, 1.0 - 0.55 * shade**2, 1.0 - 0.25 * shade**3], axis=-1)
path = os.path.join(folder, "gray_scott.png")
pixels = np.rint(picture * 255.0).astype(np.uint8)
Image.fromarray(pixels).save(path)
print("wrote", path)
