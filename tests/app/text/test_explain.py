import re
from dataclasses import replace
from html import unescape

import pytest

from app.text.explain import document, plain, ranked, rich
from core.catalogue.load import load_catalogue
from core.predict.changes import Change, Kind, Step
from core.predict.explain import Bound, MissedLimit, explain
from core.predict.scenario import initial_posterior
from core.predict.validity import MemoryFit
from core.spec import Absent, OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint(weights="int8")
VERDICT = explain(POINT, CATALOGUE, initial_posterior(CATALOGUE.resolve(POINT), CATALOGUE))


def of(bound, **parts):
    return replace(VERDICT, parts_s={name: 1e-3 * share for name, share in parts.items()}, bound=bound)


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (
            of(Bound.MEMORY, weights=31, kv=58, layers=11),
            (
                "Decode is <b>memory-bound</b>: 89 %",
                "reading memory (58 % the KV cache, 31 % weights), 11 % per-layer cost.",
            ),
        ),
        (
            of(Bound.MEMORY, weights=61, layers=39),
            ("Decode is <b>memory-bound</b>: 61 %", "reading memory (weights), 39 % per-layer cost."),
        ),
        (
            of(Bound.COMPUTE, compute=70, weights=10, layers=20),
            ("Decode is <b>compute-bound</b>: 70 %", "computing (arithmetic), 20 % per-layer cost."),
        ),
        (
            of(Bound.OVERHEAD, token=50, layers=10, weights=40),
            (
                "Decode is <b>overhead-bound</b>: 60 %",
                "overhead (50 % cost per token, 10 % per-layer cost), 40 % weights.",
            ),
        ),
        (
            of(None, weights=30, kv=18, layers=26, unpack=26),
            ("No single cost dominates: 30 %", "weights, 26 % per-layer cost, 26 % unpacking weights."),
        ),
    ],
)
def test_the_bottleneck_with_its_evidence(verdict, says):
    assert rich(verdict).replace("\u00a0", " ").startswith(f"{says[0]} of each token's time is {says[1]}")


def change(text, saved, top1):
    return Change(Step(text, POINT, Kind.SETTING), -saved, None, top1)


def test_proposals_say_what_they_save_and_cost():
    two = (change("int4 weights", 0.31, -0.012), change("an int8 KV cache", 0.05, 0.0))
    said = plain(replace(VERDICT, proposed=two))
    saved = [
        f"{1e3 * share * VERDICT.decode_s.median:#.2g}".rstrip(".") + f" ms ({100 * share:.0f} %)"
        for share in (0.31, 0.05)
    ]
    assert f"Int4 weights would save {saved[0]} and cost 1.2 points of agreement; " in said
    assert f"an int8 KV cache would save {saved[1]} at no loss of agreement." in said


def test_where_nothing_helps_it_says_what_was_tried():
    nothing = replace(VERDICT, proposed=())
    assert plain(replace(nothing, prunes=True)).endswith(
        "No smaller format and no pruning within r_max would save 1 %."
    )
    assert plain(replace(nothing, prunes=False)).endswith("No smaller format of the runtime would save 1 %.")


def test_memory_comes_before_limits_and_limits_before_the_bottleneck():
    missed = (MissedLimit("decode_s", 0.005, 0.0071), MissedLimit("top1_agreement", 0.95, 0.90))
    said = plain(replace(VERDICT, outside=("It does not fit in the memory",), missed=missed, feasible_alpha=0.34))
    assert said.startswith(
        "It does not fit in the memory. Limits are missed: latency by 2.1 ms and top-1 by 5.0 %. "
        "Pruning at most α 0.34 would hold it. Decode is "
    )
    assert "No prune rate keeps the accuracy" in plain(replace(VERDICT, missed=missed, needs_bits=True))
    assert plain(replace(VERDICT, missed=missed[:1])).startswith(
        "Latency per token misses its limit of 5.00 ms by 2.1 ms. Decode"
    )


def test_the_interval_is_mentioned_where_it_is_wider():
    wide = replace(VERDICT, interval_scale=2.0, interval_basis="The band is 2.0 times as wide.")
    assert plain(wide).endswith("The band is 2.0 times as wide.")
    assert "The band" not in plain(replace(wide, interval_scale=0.8))


def test_a_name_with_brackets_is_no_markup():
    odd = replace(VERDICT, outside=("<i>a & b</i> does not run",))
    assert "&lt;i&gt;a &amp; b&lt;/i&gt;" in rich(odd)
    assert plain(odd).startswith("<i>a & b</i> does not run.")
    assert unescape(re.sub("</?b>", "", rich(odd))).replace("\u00a0", " ") == plain(odd)


def test_json_has_the_same_figures():
    found = document(VERDICT)
    assert found["limits"] == plain(VERDICT)
    assert sum(found["parts_frac"].values()) == pytest.approx(1.0)
    assert found["memory"] == {"absent": VERDICT.memory.reason}
    fit = MemoryFit(2.0, 3.0, True, 4.0, "its system keeps 1", "[prior] a book")
    wanted = {"needed_byte": 2.0, "available_byte": 3.0, "fits": True, "memory_byte": 4.0, "of_largest_version": True}
    wanted |= {"basis": "its system keeps 1", "source": "[prior] a book"}
    assert document(replace(VERDICT, memory=fit))["memory"] == wanted
    told = document(replace(VERDICT, memory=replace(fit, source="")))["memory"]
    assert told["source"] == {"absent": "the board says so itself"}
    assert [change["change"] for change in found["changes"]] == [change.step.text for change in VERDICT.changes]
    absent = document(replace(VERDICT, decode_s=Absent("no kernel"), parts_s={}, bound=None, changes=(), proposed=()))
    assert absent["bound"] == absent["binding"] == absent["dominant_part"] == {"absent": "no kernel"}
    assert absent["limits"] == "There is no decode time to explain: no kernel."


def test_costs_are_ranked_and_nothing_is_left_out():
    assert ranked({"a": 1.0, "b": 3.0, "c": 0.0}) == [("b", 3.0, 0.75), ("a", 1.0, 0.25)]
    assert ranked({}) == []


def test_a_power_limit_that_binds_is_said_once():
    limited = replace(of(None, weights=30, kv=18, layers=26, unpack=22, power=4), binding="power")
    assert plain(limited).count("power limit binds") == 1
    mostly = replace(of(Bound.POWER, weights=40, power=60), binding="power")
    assert "Decode is power-bound" in plain(mostly)
    assert "power limit binds" not in plain(mostly)
    assert "power limit binds" not in plain(of(Bound.MEMORY, weights=90, layers=10))
