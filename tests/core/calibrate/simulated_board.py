"""A board whose cost parameters are drawn from the prior, and its measurements."""

import functools
from dataclasses import replace

import numpy as np

from core.calibrate.observations import MeasuredPoint
from core.catalogue.load import load_catalogue
from core.predict.parameters import extended, prior, ratio_names
from core.predict.scenario import predict
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
BASE = OperatingPoint()
FORMATS = ("fp32", "bf16", "int8", "int4")
GRID = [
    replace(BASE, weights=w, context_tokens=n, alpha=alpha)
    for w in FORMATS
    for n in (256.0, 1024.0, 2048.0, 4096.0)
    for alpha in (0.0, 0.3, 0.6, 0.9)
]


@functools.cache
def prior_of(points):
    """What is known of a board before any measurement, for all these points."""
    found = prior(CATALOGUE.resolve(points[0]))
    for point in points:
        found = extended(found, ratio_names(CATALOGUE.resolve(point)))
    return found


class Board:
    """A simulated board: cost parameters drawn from the prior, measurements scattered about what they give."""

    def __init__(self, seed, scatter=0.02, points=GRID):
        self.rng = np.random.default_rng(seed)
        self.scatter = scatter
        truth = prior_of(tuple(points))
        self.truth = replace(truth, log_mean=self.rng.multivariate_normal(truth.log_mean, truth.log_cov))

    def true(self, point):
        return predict(point, CATALOGUE, self.truth)

    def measure(self, point):
        there = self.true(point)
        noise = self.rng.normal(0.0, self.scatter, 2)
        return MeasuredPoint(
            point,
            there.decode_s.median * np.exp(noise[0]),
            0.003,
            ttft_s=there.ttft_s.median * np.exp(noise[1]),
            ttft_log_sd=0.003,
        )


def grid(seed=0, **options):
    board = Board(seed, **options)
    return board, [board.measure(point) for point in GRID]


def exactly_predicted(*points):
    return [MeasuredPoint(p, predict(p, CATALOGUE).decode_s.median, 0.003) for p in points]
