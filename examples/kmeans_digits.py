"""k-means on handwritten digits: the best of several starts.

    python -m offarray --report examples/kmeans_digits.py [folder] [--small]

Needs scikit-learn for the digits and Pillow for the picture (both come with the `test` extra).
"""

import os
import sys
import time

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

small = "--small" in sys.argv
folder = next((a for a in sys.argv[1:] if not a.startswith("-")), "examples/out")
starts, rounds, k = (2, 5, 10) if small else (60, 25, 10)

digits = load_digits()
points = np.array(digits.data / 16.0)  # 1797 pictures of 8x8
truth = np.array(digits.target)
rng = np.random.default_rng(11)

begin = time.perf_counter()
best = np.inf
for _ in range(starts):
    centers = points[rng.choice(len(points), k, replace=False)]
    for _ in range(rounds):
        distance = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
        label = distance.argmin(axis=1)
        member = (label[:, None] == np.arange(k)).astype(float)
        count = np.maximum(member.sum(axis=0), 1.0)
        centers = member.T @ points / count[:, None]
    inertia = float(((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2).min(axis=1).sum())
    if inertia < best:
        best, best_label, best_centers = inertia, label, centers

votes = np.zeros((k, 10), dtype=int)
np.add.at(votes, (best_label, truth), 1)
purity = float(votes.max(axis=1).sum() / len(truth))
seconds = time.perf_counter() - begin
print(f"{starts} starts of {rounds} rounds on {points.shape[0]}x{points.shape[1]} in {seconds:.2f} s")
print(f"inertia {best:.4f}, purity {purity:.4f}")
assert small or purity > 0.75, "clusters must follow the digits"

os.makedirs(folder, exist_ok=True)
tiles = np.pad(best_centers.reshape(k, 8, 8), ((0, 0), (1, 1), (1, 1)))
tiles = tiles.reshape(2, 5, 10, 10).transpose(0, 2, 1, 3).reshape(20, 50)
path = os.path.join(folder, "kmeans_digits.png")
pixels = np.rint(255.0 * (1.0 - tiles)).astype(np.uint8)
picture = Image.fromarray(pixels)
picture.resize((500, 200), Image.Resampling.NEAREST).save(path)
print("wrote", path)
