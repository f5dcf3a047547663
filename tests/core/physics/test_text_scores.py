import numpy as np
import pytest

from core.physics.text_scores import bleu, perplexity, rouge_l, tokens_13a, top_kl

TEXTS = ["The quick brown fox jumps over the lazy dog.", "It costs $3.50, he said."]
REFERENCES = ["A quick brown fox jumped over the lazy dog.", "It cost $3.50, he says."]


def test_golden_of_sacrebleu_and_rouge_score():
    assert bleu(TEXTS, REFERENCES) == pytest.approx(0.4653024295510497, rel=1e-12)  # sacrebleu 2.6, 13a, exp
    assert bleu(["the cat sat on the mat"], ["the cat sat on a mat"]) == pytest.approx(0.537284965911771, rel=1e-12)
    scores = [rouge_l(text, reference) for text, reference in zip(TEXTS, REFERENCES, strict=True)]
    assert scores == pytest.approx([7 / 9, 2 / 3], rel=1e-12)  # rouge-score 0.1, rougeL


def test_limits_of_the_scores():
    assert bleu(TEXTS, TEXTS) == pytest.approx(1.0)
    assert bleu(["one two three four"], ["five six seven eight"]) == 0.0
    assert bleu(["a b"], ["a c"]) == 0.0  # no 3-gram at all
    assert bleu([""], ["a b c d e"]) == 0.0
    assert rouge_l(TEXTS[0], TEXTS[0]) == 1.0
    assert rouge_l("", "word") == rouge_l("word", "...") == 0.0
    assert rouge_l("Ünïts über 10", "ünïts ÜBER 10") == 1.0


def test_a_short_text_pays_the_brevity_penalty():
    reference = "one two three four five six seven eight"
    short = " ".join(reference.split()[:5])
    assert bleu([short], [reference]) == pytest.approx(np.exp(1 - 8 / 5))
    assert bleu([f"{reference} {reference}"], [reference]) < 0.6


def test_texts_without_a_reference_each_are_refused():
    for texts, references in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(ValueError, match="expected one reference for each"):
            bleu(texts, references)


def test_tokens_keep_numbers_and_split_marks():
    assert tokens_13a("a-b 10-20, 3.5% &amp; \"x\"") == [
        "a-b", "10", "-", "20", ",", "3.5", "%", "&", '"', "x", '"',
    ]  # fmt: skip


def test_perplexity_golden_and_bad_logarithms():
    assert perplexity(np.log([0.5, 0.125])) == pytest.approx(4.0)
    for wrong in ([], [0.1], [np.nan], [-np.inf]):
        with pytest.raises(ValueError, match="log_probability"):
            perplexity(wrong)


def test_divergence_of_listed_tokens_is_below_the_true_one():
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.25, 0.25, 0.25, 0.25])
    full = float(np.sum(p * np.log(p / q)))
    listed = [{token: float(np.log(each[i])) for i, token in enumerate("abc")} for each in (p, q)]
    assert top_kl(*listed) == pytest.approx(full)
    two = [{token: each[token] for token in "ab"} for each in listed]
    assert 0.0 < top_kl(*two) < full
    assert top_kl(two[0], two[0]) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="no token in both"):
        top_kl({"a": -1.0}, {"b": -1.0})
