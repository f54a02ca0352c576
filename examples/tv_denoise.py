"""Total-variation denoising of a photograph.

    python -m offarray --report examples/tv_denoise.py [folder] [--small]

Solves Chambolle's dual problem by projected gradient steps, written as a NumPy user writes it: with slices.
Needs scikit-image for the photograph and Pillow for the picture (both come with the `test` extra).
"""

import os
import sys
import time

import numpy as np
from PIL import Image
from skimage import data

small = "--small" in sys.argv
folder = next((a for a in sys.argv[1:] if not a.startswith("-")), "examples/out")
steps = 10 if small else 200
weight, tau = 0.16, 0.25

clean = np.array(data.astronaut()) / 255.0
clean = clean[::4, ::4] if small else clean
rng = np.random.default_rng(7)
noisy = clean + 0.12 * rng.standard_normal(clean.shape)

start = time.perf_counter()
px = np.zeros(noisy.shape)  # dual variable, down
py = np.zeros(noisy.shape)  # dual variable, across
for _ in range(steps):
    # divergence of the dual variable, zero flow through the border
    div = px + py
    div[1:] -= px[:-1]
    div[:, 1:] -= py[:, :-1]
    u = div - noisy / weight
    # its gradient, zero in the last row and column
    gx = np.zeros(u.shape)
    gy = np.zeros(u.shape)
    gx[:-1] = u[1:] - u[:-1]
    gy[:, :-1] = u[:, 1:] - u[:, :-1]
    # a step, then back onto the unit balls
    norm = 1.0 + tau * np.sqrt(gx * gx + gy * gy)
    px = (px + tau * gx) / norm
    py = (py + tau * gy) / norm

div = px + py
div[1:] -= px[:-1]
div[:, 1:] -= py[:, :-1]
result = np.clip(noisy - weight * div, 0.0, 1.0)


def psnr(image):
    """Peak signal-to-noise ratio against the clean photograph, in decibels."""
    return float(-10.0 * np.log10(np.mean((image - clean) ** 2)))


before, after = psnr(np.clip(noisy, 0.0, 1.0)), psnr(result)
seconds = time.perf_counter() - start
print(f"{steps} steps on {'x'.join(map(str, noisy.shape))} in {seconds:.2f} s")
print(f"PSNR {before:.3f} dB -> {after:.3f} dB")
assert small or after > before + 7.0, "the denoised picture must be clearly better"

os.makedirs(folder, exist_ok=True)
side_by_side = np.concatenate([np.clip(noisy, 0.0, 1.0), result], axis=1)
path = os.path.join(folder, "tv_denoise.png")
pixels = np.rint(side_by_side * 255.0).astype(np.uint8)
Image.frombytes("RGB", pixels.shape[1::-1], pixels.tobytes()).save(path)
print("wrote", path)
