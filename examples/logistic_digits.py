"""Multinomial logistic regression on handwritten digits by gradient descent with momentum.

    python -m offarray --report examples/logistic_digits.py [folder] [--small]

The training set is every digit shifted by up to one pixel.  Needs scikit-learn for the digits (it comes with the
`test` extra).
"""

import json
import os
import sys
import time

import numpy as np
from sklearn.datasets import load_digits

small = "--small" in sys.argv
folder = next((a for a in sys.argv[1:] if not a.startswith("-")), "examples/out")
steps = 20 if small else 1500
rate, momentum, decay = 0.1, 0.9, 1e-4

digits = load_digits()
images = np.array(digits.images / 16.0)
target = np.array(digits.target)
order = np.random.default_rng(5).permutation(len(images))
images, target = images[order], target[order]
held = 360  # kept apart for the test


def shifted(pictures, down, right):
    """Pictures moved by whole pixels, zeros coming in."""
    moved = np.zeros((len(pictures), 10, 10))
    moved[:, 1 + down : 9 + down, 1 + right : 9 + right] = pictures
    return moved[:, 1:9, 1:9]


def features(pictures):
    """One row for each picture: its pixels, the products of neighbouring pixels, and a one."""
    n = len(pictures)
    across = pictures[:, :, 1:] * pictures[:, :, :-1]
    down = pictures[:, 1:] * pictures[:, :-1]
    return np.concatenate([p.reshape(n, -1) for p in (pictures, across, down)] + [np.ones((n, 1))], axis=1)


moves = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
x = features(np.concatenate([shifted(images[held:], *move) for move in moves]))
y = np.tile(target[held:], len(moves))
onehot = (y[:, None] == np.arange(10)).astype(float)
test = features(images[:held])

start = time.perf_counter()
w = np.zeros((x.shape[1], 10))
velocity = np.zeros_like(w)
for _ in range(steps):
    score = x @ w
    score -= score.max(axis=1, keepdims=True)
    weight = np.exp(score)
    probability = weight / weight.sum(axis=1, keepdims=True)
    gradient = x.T @ (probability - onehot) / len(x) + decay * w
    velocity = momentum * velocity - rate * gradient
    w += velocity

score = x @ w
score -= score.max(axis=1, keepdims=True)
loss = float((np.log(np.exp(score).sum(axis=1)) - (score * onehot).sum(axis=1)).mean())
accuracy = float(((test @ w).argmax(axis=1) == target[:held]).mean())
seconds = time.perf_counter() - start
print(f"{steps} steps on {x.shape[0]}x{x.shape[1]} in {seconds:.2f} s")
print(f"loss {loss:.6f}, accuracy on held-out digits {accuracy:.4f}")
assert small or accuracy > 0.9, "the model must have learned"

os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "logistic_digits.json")
with open(path, "w") as file:
    json.dump({"loss": loss, "accuracy": accuracy, "largest_weight": float(np.abs(w).max())}, file)
print("wrote", path)
