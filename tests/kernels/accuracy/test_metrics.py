import math

import pytest
import torch

from kernels.accuracy.metrics import (
    Scored,
    Window,
    compare,
    default_text,
    pooled,
    read_text,
    share_record,
    wilson_interval,
)


@pytest.fixture
def reference():
    g = torch.Generator().manual_seed(0)
    return Scored.from_logits(torch.randn(400, 50, generator=g), torch.randint(0, 50, (400,), generator=g))


def noisy(reference, sd):
    noise = torch.randn(reference.log_probs.shape, generator=torch.Generator().manual_seed(1)) * sd
    return Scored.from_logits(reference.log_probs + noise, reference.targets)


def test_the_reference_compared_with_itself_is_exact(reference):
    got = compare(reference, reference)
    assert got["perplexity_ratio"]["median"] == got["perplexity_ratio"]["q05"] == got["perplexity_ratio"]["q95"] == 1
    assert got["mean_kl"]["median"] == 0
    assert got["top1_agreement"]["median"] == 1
    assert got["top1_agreement"]["q05"] < 1  # 400 tokens do not prove that it never differs


def test_uniform_predictions_have_the_perplexity_of_the_vocabulary():
    run = Scored.from_logits(torch.zeros(10, 50), torch.arange(10))
    assert compare(run, run)["perplexity"]["median"] == pytest.approx(50)


def test_known_divergence():
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1])
    targets = torch.zeros(4, dtype=torch.int64)
    run, ref = (Scored.from_logits(x.log().expand(4, 2), targets) for x in (q, p))
    expected = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    got = compare(run, ref)
    assert got["mean_kl"]["median"] == pytest.approx(expected, rel=1e-6)
    assert got["perplexity_ratio"]["median"] == pytest.approx(0.5 / 0.9, rel=1e-6)
    assert got["top1_agreement"]["median"] == 1


def test_more_noise_diverges_more(reference):
    runs = [compare(noisy(reference, sd), reference) for sd in (0.05, 0.2, 0.8)]
    kl = [r["mean_kl"]["median"] for r in runs]
    agreement = [r["top1_agreement"]["median"] for r in runs]
    assert kl == sorted(kl)
    assert agreement == sorted(agreement, reverse=True)
    assert kl[0] == pytest.approx(0.05**2 / 2, rel=0.1)  # half the variance of the noise, to second order


def test_pairing_makes_the_ratio_far_surer_than_the_perplexity(reference):
    run = noisy(reference, 0.05)
    got = compare(run, reference)
    ratio, ppl = got["perplexity_ratio"], got["perplexity"]
    assert ratio["q95"] / ratio["q05"] - 1 < 0.2 * (ppl["q95"] / ppl["q05"] - 1)
    assert ratio["q05"] < 1 < ratio["q95"]


def test_interval_covers_the_truth_in_nine_of_ten_draws():
    g = torch.Generator().manual_seed(3)
    truth = math.exp(0.1**2 / 2)  # two runs whose losses differ by noise around a known mean
    hits = 0
    for _ in range(300):
        losses = torch.randn(100, generator=g) * 0.5
        n = len(losses)
        ref = Scored(torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64))
        run = Scored(-(math.log(truth) + losses)[:, None], ref.targets)
        got = compare(run, ref)["perplexity_ratio"]
        hits += got["q05"] <= truth <= got["q95"]
    assert 0.85 < hits / 300 < 0.95


def windows_about(truth, n_windows, n, between_sd, g):
    """Windows whose mean losses differ between windows, as stretches of text do."""
    found = []
    for _ in range(n_windows):
        losses = truth + torch.randn(1, generator=g) * between_sd + torch.randn(n, generator=g) * 0.5
        zero = torch.zeros(n, dtype=torch.float64)
        found.append(Window(losses.double(), zero, losses.double().abs(), zero, zero))
    return found


@pytest.mark.parametrize("between_sd", [0.0, 0.3])
def test_pooled_intervals_cover_the_truth_although_windows_differ(between_sd):
    g = torch.Generator().manual_seed(5)
    hits = 0
    for _ in range(400):
        got = pooled(windows_about(0.2, 5, 50, between_sd, g))["perplexity_ratio"]
        hits += got["q05"] <= math.exp(0.2) <= got["q95"]
    assert 0.86 < hits / 400 < 0.98


def test_one_window_cannot_know_that_windows_differ():
    g = torch.Generator().manual_seed(6)
    hits = 0
    for _ in range(200):
        got = pooled(windows_about(0.2, 1, 250, 0.3, g))["perplexity_ratio"]
        hits += got["q05"] <= math.exp(0.2) <= got["q95"]
    assert hits / 200 < 0.5


def test_pooling_equal_windows_only_adds_tokens(reference):
    window = Window.of(noisy(reference, 0.1), reference)
    one, four = pooled([window]), pooled([window] * 4)
    for name in one:
        assert four[name]["median"] == pytest.approx(one[name]["median"])
        assert four[name]["n"] == 4 * one[name]["n"]
        assert four[name]["q95"] - four[name]["q05"] < 0.6 * (one[name]["q95"] - one[name]["q05"])


def test_a_share_whose_windows_differ_counts_for_fewer_trials():
    even = share_record([torch.tensor([1.0, 0.0] * 20, dtype=torch.float64)] * 4)
    uneven = share_record([torch.full((40,), x, dtype=torch.float64) for x in (1.0, 1.0, 0.0, 0.0)])
    assert even["median"] == uneven["median"] == 0.5
    assert uneven["q95"] - uneven["q05"] > 3 * (even["q95"] - even["q05"])
    assert share_record([torch.ones(30, dtype=torch.float64)])["q05"] == pytest.approx(wilson_interval(1.0, 30)[0])


def test_wilson_interval_golden():
    low, high = wilson_interval(0.9, 100, z=1.959964)
    assert (low, high) == (pytest.approx(0.8256343, abs=1e-6), pytest.approx(0.9447709, abs=1e-6))
    assert wilson_interval(1.0, 10)[1] == 1
    assert wilson_interval(0.0, 10)[0] == 0


def test_lengths_must_match():
    with pytest.raises(ValueError, match="logits, targets: got lengths 3, 2"):
        Scored.from_logits(torch.zeros(3, 4), torch.zeros(2, dtype=torch.int64))


def test_default_text_is_long_and_a_missing_file_is_one_sentence(tmp_path):
    assert len(default_text()) > 100_000
    file = tmp_path / "text.txt"
    file.write_text("Grüße", encoding="utf-8")
    assert read_text(file, 100) == "Grüße"
    assert read_text(file, 2) == "Gr"
    file.write_bytes(b"\xff\xfe\x00")
    for bad in (file, tmp_path / "none.txt"):
        with pytest.raises(ValueError, match="not a readable UTF-8 text"):
            read_text(bad, 100)
