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


def test_sentence_shares_and_evidence(capsys):
    found = explained(capsys, *ROCKCHIP, "--max-latency", "100ms", "--min-accuracy", "95%")
    assert found["limits"].startswith("Decode is memory-bound: ")
    assert found["dominant_part"] == "weights"
    assert found["memory"]["fits"] is True
    assert sum(found["parts_frac"].values()) == pytest.approx(1.0)
    assert found["elasticity_of_decode_s"]["bandwidth_byte_s"] == pytest.approx(-0.88, abs=0.1)
    margin = found["margins"]["latency"]
    assert margin["low"] < margin["median"] < margin["high"]
    assert margin["median"] == pytest.approx(0.39, abs=0.05)
    assert found["margins"]["accuracy"]["median"] > 0.0
    assert found["largest_context_tokens"] > 10_000
    evidence = found["evidence"]
    assert "LPDDR4X" in evidence["bandwidth_byte_s"]["source"]
    assert "published rows" in evidence["parameters"]["eta.w8a8"]["source"]


def test_changes_are_of_formats_that_the_runtime_has_on_the_board(capsys):
    found = explained(capsys, *("rk3576" if word == "rk3588" else word for word in ROCKCHIP))
    assert found["proposed"] == ["w4a16 weights"]
    best, *others = found["changes"]
    assert best["change"] == "w4a16 weights"
    assert best["decode_s_frac"] < -0.1
    assert best["top1_agreement_difference"] < 0.0
    assert all(change["decode_s_frac"] >= best["decode_s_frac"] for change in others)
    assert explained(capsys, *ROCKCHIP)["proposed"] == []  # its NPU has no 4-bit weights


def test_prior_names_its_source_and_limits_can_break(capsys):
    found = explained(capsys, "--max-latency", "1ms", "--max-power", "1000W")
    assert "[prior]" in found["evidence"]["parameters"]["rho"]["source"]
    assert found["margins"]["latency"]["median"] < 0.0
    assert found["margins"]["power"]["median"] > 0.0
    assert "absent" in found["largest_context_tokens"]


def test_limits_on_whole_requests_and_on_sustained_speed(capsys):
    words = ("--board", "raspberry_pi_5", "--runtime", "llamacpp_cpu", "--weights", "q4_k_m", "--context", "512")
    found = explained(capsys, *words, "--max-request-p99", "1ms", "--min-sustained", "10000tok/s", "--answer", "64")
    assert [one["output"] for one in found["missed"]] == ["request_p99_s", "sustained_tokens_s"]
    assert found["margins"]["request P99"]["median"] < 0.0
    assert found["margins"]["sustained speed"]["low"] < found["margins"]["sustained speed"]["median"] < 0.0
    assert "absent" in found["largest_context_tokens"]
    longer = explained(capsys, *words, "--max-request-p99", "5000s", "--answer", "128")["margins"]["request P99"]
    shorter = explained(capsys, *words, "--max-request-p99", "5000s", "--answer", "64")["margins"]["request P99"]
    assert 0.0 < longer["median"] < shorter["median"] < 1.0


def test_text(capsys):
    assert main(["explain", *ROCKCHIP, "--max-latency", "50ms", "--max-power", "10W"]) == 0
    out = capsys.readouterr().out
    assert "What would make it faster" in out
    assert "Margins to the limits" in out
    assert "power" in out.split("Margins to the limits")[1]
    assert "Largest context" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-latency", "0s"], "max-latency: got 0s"),
        (["--max-latency", "100"], "max-latency: got '100', expected a number and its unit, such as 9.3 ms"),
        (["--min-accuracy", "100%"], "under 100 %"),
        (["--max-power", "x"], "max-power"),
        (["--max-request-p99", "5"], "max-request-p99: got '5', expected a number and its unit"),
        (["--max-request-p99", "0s"], "max-request-p99: got 0s, expected more than 0"),
        (["--min-sustained", "nan"], "min-sustained: got 'nan', expected a number and its unit, such as 10 tok/s"),
        (["--min-sustained", "-3"], "min-sustained: got -3, expected more than 0"),
        (["--answer", "1.5"], "answer: got 1.5, expected a whole number of tokens"),
        (["--answer", "0"], "answer: got 0, expected 1 tokens to"),
    ],
)
def test_mistakes_are_one_sentence(capsys, words, message):
    assert main(["explain", *words]) == 2
    assert message in capsys.readouterr().err


def test_sobol_indices_stand_beside_the_elasticities(capsys):
    found = explained(capsys, "--context", "4096", "--sobol")["sobol_of_decode_s"]
    assert found["inputs"].keys() == {"bandwidth_byte_s", "context_tokens", "beta", "alpha"}
    assert found["n_predictions"] == 8 * 1024 * (4 + 2)
    first = {name: row["first_order"]["value"] for name, row in found["inputs"].items()}
    total = {name: row["total_order"]["value"] for name, row in found["inputs"].items()}
    assert max(first, key=first.get) == "bandwidth_byte_s"
    assert sum(first.values()) <= 1.0 + 1e-3 <= sum(total.values()) + 2e-3
    for name, row in found["inputs"].items():
        assert row["range"][0] < row["range"][1]
        assert first[name] <= total[name] + row["first_order"]["error"] + row["total_order"]["error"]
        assert 0.0 <= row["total_order"]["error"] < 0.01
    assert found["inputs"]["bandwidth_byte_s"]["elasticity"] < -0.5
    assert "sobol_of_decode_s" not in explained(capsys)


def test_sobol_ranges_and_samples_can_be_given(capsys):
    words = ("--sobol", "context=512:8192", "bandwidth=20GB/s:21GB/s", "--samples", "64")
    found = explained(capsys, *words)["sobol_of_decode_s"]
    assert [row["range"] for row in found["inputs"].values()] == [[512.0, 8192.0], [20e9, 21e9]]
    assert found["inputs"]["context_tokens"]["first_order"]["value"] > 0.9
    assert main(["explain", *words]) == 0
    out = capsys.readouterr().out
    assert "90 % errors by 8 replicates, 2048 predictions" in out
    assert "20 GB/s to 21 GB/s" in out


def test_without_a_decode_time_there_are_no_sobol_indices(capsys):
    assert "accuracy only" in explained(capsys, "--weights", "int2", "--sobol")["sobol_of_decode_s"]["absent"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alpha=0.5"], "sobol: got 'alpha=0.5', expected NAME=LOW:HIGH"),
        (["weights=1:2"], "with a name of alpha, bandwidth, beta, context"),
        (["alpha=0.5:0.1"], "expected LOW below HIGH"),
        (["alpha=0:0.1", "alpha=0:0.2"], "got alpha twice"),
        (["alpha=0:2"], "alpha is 2: expected 0 <= alpha < 1"),
        (["bandwidth=1:2"], "expected a number and its unit, such as 51.2 GB/s"),
        (["context=1:1M"], "expected at most 8192 tokens"),
        (["alpha=0:0.1"], "sobol: ranges of 1 inputs, expected two or more"),
        (["--samples", "100"], "samples: got 100, expected a power of 2 from 2 to 16384"),
    ],
)
def test_mistakes_in_ranges_are_one_sentence(capsys, words, message):
    assert main(["explain", "--sobol", *words]) == 2
    assert message in capsys.readouterr().err
