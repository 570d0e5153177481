#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stats.py - golden values of distributions, by mpmath to 40 digits.

Quantiles are roots, and power is the plain integral of what a t test does: nothing here is how Weft does it.

    python3 tests/golden/stats.py     needs mpmath; writes stats.json, the same bytes every time

README.md describes the file.
"""

import json
import os

from mpmath import betainc, erfc, exp, gamma, inf, mp, mpf, quad, sqrt

mp.dps = 40


def beta_cdf(a, b, x):
    return betainc(a, b, 0, x, regularized=True)


def t_beyond(t, v):
    return 2 * quad(lambda u: t_density(u, v), [t, t + 1, t + 4, t + 16, inf])


def t_density(t, v):
    return gamma((v + 1) / mpf(2)) / (sqrt(v * mp.pi) * gamma(v / mpf(2))) * (1 + t * t / v) ** (-(v + 1) / mpf(2))


def t_cdf(t, v):
    return t_beyond(-t, v) / 2 if t < 0 else 1 - t_beyond(t, v) / 2


def root(f, low, high):
    """Returns the root of a monotonic f, by bisection."""
    rising = f(high) > f(low)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if (f(middle) > 0) == rising else (middle, high)
    return middle


def t_quantile(p, v):
    """Through the incomplete beta function, which is quick enough for a root; t_beyond does without."""
    tail = 2 * min(p, 1 - p)
    y = root(lambda y: betainc(v / mpf(2), 0.5, 0, 1 - y, regularized=True) - tail, mpf(0), mpf(1))
    t = sqrt(v * y / (1 - y))
    return -t if p < 0.5 else t


def power(effect, n, alpha):
    """|Z + shift| exceeds limit * s, with s^2 a chi-square over its freedom."""
    v, shift, limit = n - 1, effect * sqrt(n), t_quantile(1 - alpha / 2, n - 1)
    beyond = lambda x: erfc(x / sqrt(2)) / 2
    density = lambda s: 2 * (v / mpf(2)) ** (v / mpf(2)) / gamma(v / mpf(2)) * s ** (v - 1) * exp(-v * s * s / 2)
    at = shift / limit
    cuts = sorted({mpf(0), *(x for x in (at - 8 / limit, at - 2 / limit, at, at + 2 / limit, at + 8 / limit) if x > 0)})
    cuts = [c for c in cuts if c < 12] + [mpf(c) for c in (0.5, 1, 1.5, 2, 3, 6, 12)]
    f = lambda s: density(s) * (beyond(limit * s - shift) + beyond(limit * s + shift))
    return quad(f, sorted(set(cuts)))


def below(hits, trials, x):
    """The chance of fewer hits, term by term."""
    term, total = (1 - x) ** trials, mpf(0)
    for i in range(int(hits)):
        total += term
        term *= (trials - i) * x / ((i + 1) * (1 - x))
    return total


def rate_low(hits, trials, alpha):
    return root(lambda x: 1 - below(hits, trials, x) - alpha / 2, mpf(0), hits / trials)


def rate_high(hits, trials, alpha):
    return root(lambda x: below(hits + 1, trials, x) - alpha / 2, hits / trials, 1 - mpf(10) ** -30)


CASES = {
    beta_cdf: [(0.5, 0.5, 0.1), (2, 3, 0.4), (0.25, 7.5, 1e-6), (40, 0.5, 0.97), (300, 500, 0.39), (300, 500, 0.3)],
    t_beyond: [(t, v) for v in (1, 2, 3, 4, 7, 30, 1000) for t in (0.01, 1, 2.5, 40) if v < 100 or t < 10],
    t_cdf: [(-3, 2), (-0.2, 5), (0.001, 9), (1.5, 1.5), (4, 12)],
    t_quantile: [(p, v) for v in (1, 2, 4, 9, 29, 10000) for p in (1e-5, 0.0125, 0.3, 0.975, 0.9995)],
    power: [(1, 10, 0.05), (0.5, 34, 0.05), (0.1, 5, 0.05), (3, 3, 0.05), (12, 2, 0.05), (240, 2, 0.0025), (0.2, 199, 0.05)]
    + [(1.5, 8, 0.0125), (0.05, 3000, 0.05)],
    rate_low: [(1, 20, 0.05), (7, 10, 0.01), (5000, 100000, 1e-6)],
    rate_high: [(0, 20, 0.05), (7, 10, 0.01), (5000, 100000, 1e-6)],
}


def main():
    rows = [
        json.dumps({"f": f.__name__, "in": args, "out": float(f(*(mpf(x) for x in args)))})
        for f, cases in CASES.items()
        for args in cases
    ]
    with open(os.path.join(os.path.dirname(__file__), "stats.json"), "w") as out:
        out.write("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
