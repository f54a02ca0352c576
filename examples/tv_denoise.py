"""Total-variation denoising of a photograph.

    python -m offarray --report examples/tv_denoise.py [folder] [--small]

Solves Chambolle's dual problem by projected gradient steps, written as a NumPy user writes it: with slices.
Needs scikit-image for the photograph of a retina (1411x1411, in colour) and Pillow for the picture; both come with the
`test` extra.
"""

import os
import sys
import time

import numpy as np
from PIL import Image
from skimage import data

small = "--small" in sys.argv
folder = next((a for a in sys.argv[1:] if not a.startswith("-")), "examples/out")
steps = 10 if small else 30
weight, tau = 0.16, 0.25

clean = np.array(data.retina()) / 255.0
clean = clean[::12, ::12] if small else clean
noisy = clean + 0.12 * np.random.default_rng(7).standard_normal(clean.shape)

start = time.perf_counter()
rows, columns, colours = noisy.shape
px = np.zeros((rows + 1, columns, colours))  # dual variable, down; nothing flows through the border
py = np.zeros((rows, columns + 1, colours))  # dual variable, across
u = np.empty((rows + 1, columns + 1, colours))  # its last row and column repeat the ones before
target = noisy / weight
for _ in range(steps):
    u[:-1, :-1] = px[1:] - px[:-1] + py[:, 1:] - py[:, :-1] - target
    u[-1] = u[-2]
    u[:, -1] = u[:, -2]
    gx = u[1:, :-1] - u[:-1, :-1]
    gy = u[:-1, 1:] - u[:-1, :-1]
    norm = 1.0 + tau * np.sqrt(gx * gx + gy * gy)
    px[1:] = (px[1:] + tau * gx) / norm
    py[:, 1:] = (py[:, 1:] + tau * gy) / norm

div = px[1:] - px[:-1] + py[:, 1:] - py[:, :-1]
result = np.clip(noisy - weight * div, 0.0, 1.0)
noisy = np.clip(noisy, 0.0, 1.0)


def psnr(image):
    """Peak signal-to-noise ratio against the clean photograph, in decibels."""
    return float(-10.0 * np.log10(np.mean((image - clean) ** 2)))


before, after = psnr(noisy), psnr(result)
seconds = time.perf_counter() - start
print(f"{steps} steps on {'x'.join(map(str, noisy.shape))} in {seconds:.2f} s")
print(f"PSNR {before:.3f} dB -> {after:.3f} dB")
assert small or after > before + 15.0, "the denoised picture must be clearly better"

os.makedirs(folder, exist_ok=True)
pixels = np.rint(np.concatenate([noisy, result], axis=1) * 255.0).astype(np.uint8)
path = os.path.join(folder, "tv_denoise.png")
Image.fromarray(pixels).save(path, compress_level=1)
print("wrote", path)
