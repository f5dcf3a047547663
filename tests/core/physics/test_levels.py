"""The time of traffic with an on-chip share is that of the serial mix of both bandwidths."""

import numpy as np
import pytest

from core.articles.hierarchy import serial_bandwidth_byte_s
from core.physics.levels import byte_cost


def test_the_mix_of_the_article():
    assert 176.0 / float(byte_cost(0.82, 768.0, 176.0)) == pytest.approx(478.3691959, rel=1e-9)


def test_the_serial_mix_at_any_share():
    for share in np.linspace(0.0, 1.0, 11):
        mixed = serial_bandwidth_byte_s([share, 1.0 - share], [768e9, 102.4e9])
        assert 102.4e9 / byte_cost(share, 768e9, 102.4e9) == pytest.approx(float(mixed))


def test_ends_and_an_unknown_bandwidth():
    assert byte_cost(0.0, 768e9, 1e11) == 1.0
    assert byte_cost(1.0, 5e11, 1e11) == 0.2
    assert byte_cost(0.25, np.inf, 1e11) == 0.75


@pytest.mark.parametrize(
    ("share", "on_chip", "bandwidth"), [(1.1, 1.0, 1.0), (np.nan, 1.0, 1.0), (0.5, 0.0, 1.0), (0.5, 1.0, -1.0)]
)
def test_nonsense_is_refused(share, on_chip, bandwidth):
    with pytest.raises(ValueError, match=r"on_chip|bandwidth"):
        byte_cost(share, on_chip, bandwidth)
