"""The rows of the lab: golden values at the printed inputs, limits, and one sentence for each bad input."""

import math

import numpy as np
import pytest

from app.model.checks import checked
from app.model.state import PLAIN
from app.text.lab.item import chart, sweep
from app.text.lab.table import LABS, lab
from core.spec import Provenance

GOLDEN = {
    "A03": {"bus_byte_s": 136.528e9, "in_flight_byte": 5461.12, "core_byte_s": 51.2e9},
    "A04": {"serial_byte_s": 478.3691959e9, "filled_byte_s": 430.1425662e9, "published_byte_s": 661.44e9},
    "A06": {"gemm_cycle": 2048, "softmax_cycle": 1024, "total_cycle": 4097.8, "published_cycle": 16384},
    "A07": {"apart_cycle": 4099.6, "pair_cycle": 3073.8, "best": "gemm + softmax | reshape"},
    "A08": {"published_s": 13e-9, "relaxed_width_bit": 120.0, "best_width_bit": 256.0},
    "A11": {"block_banks": 4, "stride_banks": 1, "hashed_banks": 8},
    "A14": {"capacity": 63, "stride_byte": 8454144, "pages": 129},
    "B02": {"open_frac": 0.831822184},
    "B12": {"matrix_params": 8192, "saved_frac": 0.9921875, "scaling": 8, "full_byte": 4.864e9},
    "B15": {"dscp": 50, "tick_s": 1099.511628, "wrap_s": 19.54687338 * 3600},
    "B16": {"faults": 1, "quorum": 3, "hop_s": 16.6e-3, "log_sd": 0.1812061495, "most_hops": 2},
}


@pytest.mark.parametrize("key", LABS)
def test_the_printed_inputs_give_the_golden_values(key):
    found = LABS[key].evaluate(LABS[key].defaults)
    assert set(found) == {one.name for one in LABS[key].outputs}
    for name, value in GOLDEN[key].items():
        assert found[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9))
    assert LABS[key].sentence(LABS[key].defaults, found).endswith(".")
    assert LABS[key].check.endswith(".")


@pytest.mark.parametrize("key", LABS)
def test_every_input_at_its_ends_has_a_result_or_one_sentence(key):
    one = LABS[key]
    for given in one.inputs:
        for end in (given.low, given.high):
            try:
                found = one.evaluate({**one.defaults, given.name: end})
            except ValueError as error:
                refused = str(error)
                assert "expected" in refused or "no finite result" in refused, refused
            else:
                assert all(isinstance(value, str) or math.isfinite(value) for value in found.values()), given.option
                assert one.sentence({**one.defaults, given.name: end}, found)


@pytest.mark.parametrize("key", LABS)
def test_an_input_reads_the_text_it_shows_and_refuses_what_is_none(key):
    for given in LABS[key].inputs:
        for value in (given.default, *given.span):
            assert given.read(given.text(value)) == pytest.approx(value, rel=0 if given.whole else 1e-3)
        for bad in ("", "  ", "nan", "inf", "-inf", "-1e30", "1e300", "many", "1 parsec", "--", "9" * 65):
            with pytest.raises(ValueError, match=given.label) as refused:
                given.read(bad)
            assert "expected" in str(refused.value)
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize("key", [key for key in LABS if key not in ("B16", "A08")])
def test_the_plot_has_a_curve_for_each_drawn_output(key):
    one = LABS[key]
    drawn = chart(one, one.defaults, sweep(one, one.defaults, one.swept))
    assert len(drawn.series) == len(one.drawn)
    assert not drawn.message
    assert {output.unit for output in one.outputs if output.name in one.drawn} == {drawn.y[1]}
    assert all(np.isfinite(line.y).any() for line in drawn.series)


def test_results_follow_their_inputs():
    a03, a04, b16 = LABS["A03"], LABS["A04"], LABS["B16"]
    reached = sweep(a03, a03.defaults, "open-misses").values("reached_byte_s")
    assert (np.diff(reached) >= 0).all()
    assert reached[-1] == pytest.approx(136.528e9)
    mixed = sweep(a04, a04.defaults, "hit-rate")
    assert (mixed.values("serial_byte_s") <= mixed.values("published_byte_s") * (1 + 1e-12)).all()
    assert mixed.values("serial_byte_s")[[0, -1]] == pytest.approx([176e9, 768e9])
    late = [b16.evaluate({**b16.defaults, "limit_s": limit})["late_frac"] for limit in (0.05, 0.09, 0.2)]
    assert late == sorted(late, reverse=True)
    assert late[0] == 1.0
    assert late[-1] == 0.0


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("A04", {"hit_rate": 0.8, "middle_share": 0.5}, "shares of the same bytes"),
        ("A11", {"banks": 6.0}, "a power of 2"),
        ("A14", {"region_byte": 8.0}, "for its tag"),
        ("B12", {"rank": 2000.0}, "the smaller size"),
        ("B16", {"p95_s": 0.05}, "a P95 above it"),
        ("B16", {"p95_s": 0.25, "hops": 20.0, "rounds": 20.0}, "a P95 nearer the mean"),
    ],
)
def test_values_that_contradict_each_other_are_refused(key, values, words):
    with pytest.raises(ValueError, match=words):
        LABS[key].evaluate({**LABS[key].defaults, **values})


def test_unknown_names_are_refused_with_those_that_exist():
    with pytest.raises(ValueError, match=r"'A99', expected one of A03"):
        lab("A99")
    with pytest.raises(ValueError, match=r"'x', expected one of fast"):
        sweep(LABS["A04"], LABS["A04"].defaults, "x")
    with pytest.raises(ValueError, match="a lower and a higher Hit rate"):
        sweep(LABS["A04"], LABS["A04"].defaults, "hit-rate", 0.5, 0.5)


def test_the_store_holds_every_input_and_checks_it():
    for key, one in LABS.items():
        assert len({given.option for given in one.inputs}) == len({given.name for given in one.inputs})
        assert one.swept in one.defaults
        assert set(one.drawn) <= {output.name for output in one.outputs}
        for given in one.inputs:
            assert PLAIN[f"lab.{key}.{given.option}"] == given.default
            with pytest.raises(ValueError, match=given.label):
                checked(f"lab.{key}.{given.option}", math.nan, None, None)
    with pytest.raises(ValueError, match="expected one of A03"):
        checked("lab.item", "A99", None, None)
    with pytest.raises(ValueError, match="expected one of fast"):
        checked("lab.A04.along", "x", None, None)
    assert {o.provenance for one in LABS.values() for o in one.outputs} >= {
        Provenance.PREDICTED,
        Provenance.SIMULATED,
        Provenance.AS_PUBLISHED,
    }
