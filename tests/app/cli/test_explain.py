import json

import pytest

from app.cli import main

ROCKCHIP = (
    "--board",
    "rk3588",
    "--runtime",
    "rkllm_npu",
    "--model",
    "qwen2.5-1.5b",
    "--weights",
    "w8a8",
    "--context",
    "160",
)


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))


def explained(capsys, *words):
    assert main(["explain", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_sentence_shares_changes_and_evidence(capsys):
    found = explained(capsys, *ROCKCHIP, "--max-latency", "100ms", "--min-accuracy", "95%")
    assert found["limits"].startswith("Decode is memory-bound: ")
    assert found["dominant_part"] == "weights"
    assert found["proposed"] == ["w4a16 weights"]
    assert found["memory"]["fits"] is True
    assert sum(found["parts_frac"].values()) == pytest.approx(1.0)
    best, *others = found["changes"]
    assert best["change"] == "w4a16 weights"
    assert best["decode_s_frac"] < -0.1
    assert best["top1_agreement_difference"] < 0.0
    assert all(change["decode_s_frac"] >= best["decode_s_frac"] for change in others)
    assert found["elasticity_of_decode_s"]["bandwidth_byte_s"] == pytest.approx(-0.88, abs=0.1)
    margin = found["margins"]["latency"]
    assert margin["low"] < margin["median"] < margin["high"]
    assert margin["median"] == pytest.approx(0.39, abs=0.05)
    assert found["margins"]["accuracy"]["median"] > 0.0
    assert found["largest_context_tokens"] > 10_000
    evidence = found["evidence"]
    assert "LPDDR4X" in evidence["bandwidth_byte_s"]["source"]
    assert "published rows" in evidence["parameters"]["eta.w8a8"]["source"]


def test_prior_names_its_source_and_limits_can_break(capsys):
    found = explained(capsys, "--max-latency", "1ms", "--max-power", "1000W")
    assert "[prior]" in found["evidence"]["parameters"]["rho"]["source"]
    assert found["margins"]["latency"]["median"] < 0.0
    assert found["margins"]["power"]["median"] > 0.0
    assert "absent" in found["largest_context_tokens"]


def test_text(capsys):
    assert main(["explain", *ROCKCHIP, "--max-latency", "50ms", "--max-power", "10W"]) == 0
    out = capsys.readouterr().out
    assert "What would make it faster" in out
    assert "Margins to the limits" in out
    assert "no source states the energy per byte" in out
    assert "Largest context" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-latency", "0s"], "max-latency: got 0s"),
        (["--max-latency", "100"], "max-latency: got '100', expected a number and its unit, such as 9.3 ms"),
        (["--min-accuracy", "100%"], "under 100 %"),
        (["--max-power", "x"], "max-power"),
    ],
)
def test_mistakes_are_one_sentence(capsys, words, message):
    assert main(["explain", *words]) == 2
    assert message in capsys.readouterr().err
