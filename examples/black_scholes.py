"""European options: Black and Scholes' closed form, and Monte Carlo against it.

python -m offarray --report examples/black_scholes.py [folder] [--small]
"""

import json
import os
import sys
import time

import numpy as np

small = "--small" in sys.argv
folder = next((a for a in sys.argv[1:] if not a.startswith("-")), "examples/out")
options, paths, months, books = (5_000, 20_000, 3, 2) if small else (2_000_000, 2_000_000, 12, 10)
rate, sigma = 0.03, 0.25
rng = np.random.default_rng(42)


def normal_cdf(x):
    """Cumulative normal distribution, by the rational approximation 26.2.17 of Abramowitz and Stegun."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = poly * np.exp(-0.5 * x * x) * 0.3989422804014327
    return np.where(x < 0.0, tail, 1.0 - tail)


def black_scholes(spot, strike, years):
    """Prices of calls and puts."""
    root = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma * sigma) * years) / root
    n1, n2 = normal_cdf(d1), normal_cdf(d1 - root)
    discounted = strike * np.exp(-rate * years)
    call = spot * n1 - discounted * n2
    return call, call - spot + discounted


start = time.perf_counter()
calls = puts = 0.0
for _ in range(books):
    spot = 5.0 + 25.0 * rng.random(options)
    strike = 1.0 + 99.0 * rng.random(options)
    years = 0.25 + 9.75 * rng.random(options)
    call, put = black_scholes(spot, strike, years)
    calls += float(call.sum()) / books
    puts += float(put.sum()) / books
closed = time.perf_counter() - start
print(f"closed form: {books} books of {options} options in {closed:.2f} s, calls {calls:.4f}, puts {puts:.4f}")

start = time.perf_counter()
spot, strike, years = 100.0, 105.0, 1.0
dt = years / months
price = np.full(paths, spot)
mirror = np.full(paths, spot)  # antithetic paths
for _ in range(months):
    drift = (rate - 0.5 * sigma * sigma) * dt
    shock = sigma * np.sqrt(dt) * rng.standard_normal(paths)
    price *= np.exp(drift + shock)
    mirror *= np.exp(drift - shock)
payoff = 0.5 * np.exp(-rate * years) * (np.maximum(price - strike, 0.0) + np.maximum(mirror - strike, 0.0))
estimate, error = float(payoff.mean()), float(payoff.std() / np.sqrt(paths))
exact = float(black_scholes(np.array([spot]), np.array([strike]), np.array([years]))[0][0])
seconds = time.perf_counter() - start
print(f"Monte Carlo: {paths} paths of {months} months in {seconds:.2f} s")
print(f"call {estimate:.4f} +- {error:.4f}, closed form {exact:.4f}")
assert abs(estimate - exact) < 5.0 * error, "Monte Carlo must agree with the closed form"

os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "black_scholes.json")
with open(path, "w") as file:
    json.dump({"calls": calls, "puts": puts, "monte_carlo": estimate, "error": error, "closed_form": exact}, file)
print("wrote", path)
