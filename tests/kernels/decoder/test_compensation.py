"""A compensated decoder: offsets and error feedback change what it computes, in every path alike, and can be undone."""

import itertools

import pytest
import torch

from kernels.decoder.compensation import (
    CHUNK_TOKENS,
    calibration_text,
    fed_back,
    in_chunks,
    make_offsets,
    second_moments,
    spread,
)
from kernels.decoder.linear import BiasedLinear, Int8Linear, apply_rows, biased
from kernels.decoder.transformer import Decoder
from kernels.decoder.weights import ModelFile
from kernels.native.linear import int8_linear
from tests.tiny_gguf import WIDE_HEADS, write_tiny_gguf

TEXT = torch.arange(40) * 7 % 250


def quiet(_done, _text):
    pass


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return ModelFile(write_tiny_gguf(tmp_path_factory.mktemp("wide") / "wide.gguf", sizes=WIDE_HEADS))


@pytest.fixture(scope="module")
def chunks():
    g = torch.Generator().manual_seed(3)
    return [torch.randint(250, (64,), generator=g) for _ in range(8)]


def logits(decoder, tokens=TEXT):
    return decoder.extend(tokens, 0, decoder.new_cache(len(tokens), "fp32"), all_logits=True)[0]


def token_by_token(decoder):
    cache = decoder.new_cache(len(TEXT), "fp32")
    return torch.stack([decoder.decode(int(token), i, cache).clone() for i, token in enumerate(TEXT)])


@pytest.mark.parametrize("use_native", [True, False])
@pytest.mark.parametrize("weights", ["fp32", "bf16", "int8", "int4", "int3"])
def test_offsets_count_in_prompts_and_tokens_alike_and_leave_the_plain_decoder_alone(wide, weights, use_native):
    plain = Decoder(wide, weights, use_native=use_native)
    before = logits(plain)
    offsets = 0.3 * torch.randn(2, 2, WIDE_HEADS["hidden"])
    shifted = plain.with_offsets(offsets, "shifted")
    by_prompt, by_token = logits(shifted), token_by_token(shifted)
    scale = float(by_prompt.std())
    assert float((by_prompt - before).std()) > 0.1 * scale
    assert float((by_prompt - by_token).abs().max()) < (2e-4 if weights in ("fp32", "int3") else 0.15) * scale
    assert torch.equal(logits(plain), before)
    nothing = plain.with_offsets(torch.zeros_like(offsets), "nothing")
    assert torch.allclose(logits(nothing), before, atol=1e-6)
    assert (plain.key, shifted.key) == (weights, "shifted")


def test_offsets_of_another_model_raise(wide):
    with pytest.raises(ValueError, match=r"offsets: got shape \(2, 2, 64\), expected \(2, 2, 96\)"):
        Decoder(wide, "fp32").with_offsets(torch.zeros(2, 2, 64), "")


@pytest.mark.parametrize("make", [Int8Linear, int8_linear])
def test_a_bias_joins_the_one_that_is_there(make):
    weight, x, bias = torch.randn(48, 64), torch.randn(20, 64), torch.randn(48)
    inner = make(weight)
    twice = biased(biased(inner, bias), bias)
    for rows in (x, x[:1]):  # unpacked for the moment, and by the kernel
        assert torch.allclose(apply_rows(twice, rows), apply_rows(inner, rows).float() + 2 * bias, atol=1e-4)
        given = rows.to(twice.activation_dtype)
        assert torch.allclose(twice(given).float(), inner(given).float() + 2 * bias, atol=1e-4)
    assert twice.byte == inner.byte + bias.nbytes
    assert torch.equal(twice.dequantised(), inner.dequantised())
    if isinstance(twice, BiasedLinear):
        assert torch.equal(twice.rows(torch.tensor([3])), inner.rows(torch.tensor([3])))


def test_the_outer_loop_finds_the_offsets_by_which_a_decoder_differs(wide, chunks):
    run = Decoder(wide, "int4")
    true = 0.2 * torch.randn(2, 2, WIDE_HEADS["hidden"])
    made = make_offsets(run, run.with_offsets(true, "shifted"), chunks, quiet)
    assert min(made.drifts) < 0.05 * made.drifts[0]
    assert float((made.offsets - true).norm()) < 0.15 * float(true.norm())


def test_the_outer_loop_brings_mean_activations_to_those_of_fp32(wide, chunks):
    reference, run = Decoder(wide, "fp32"), Decoder(wide, "int3")
    same = chunks[:4]  # in each round
    made = make_offsets(run, reference, same, quiet)
    again = make_offsets(run.with_offsets(made.offsets, "with"), reference, same, quiet, gain=0.0)
    assert again.drifts[0] == pytest.approx(min(made.drifts), rel=1e-3)
    assert again.drifts[0] < 0.3 * made.drifts[0]


def test_the_loop_finds_no_drift_of_the_reference_itself(wide, chunks):
    reference = Decoder(wide, "fp32")
    made = make_offsets(reference, Decoder(wide, "fp32"), chunks, quiet)
    assert made.drifts == [0.0]
    assert not made.offsets.any()


def test_a_gain_of_zero_is_the_identity(wide, chunks):
    made = make_offsets(Decoder(wide, "int3"), Decoder(wide, "fp32"), chunks, quiet, gain=0.0)
    assert not made.offsets.any()


def test_moments_are_those_of_the_inputs(wide, chunks):
    decoder = Decoder(wide, "fp32")
    found = second_moments(decoder, chunks[:2], range(1, 2), quiet)
    assert {name for _, name in found} == {"qkv", "out", "gate_up", "down"}
    assert {index for index, _ in found} == {1}
    seen = []
    decoder.observer = lambda index, name, x, y: seen.append(x.clone()) if (index, name) == (1, "down") else None
    for chunk in chunks[:2]:
        logits(decoder, chunk)
    decoder.observer = None
    x = torch.cat(seen)
    assert torch.allclose(found[1, "down"], x.T @ x / len(x), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("use_groups", [False, True])
def test_error_feedback_brings_the_outputs_of_layers_closer(wide, chunks, use_groups, monkeypatch):
    if use_groups:
        monkeypatch.setattr("kernels.decoder.compensation._MOMENT_BYTE", 1)  # one layer at a time
    reference, plain = Decoder(wide, "fp32"), Decoder(wide, "int3")
    fed = fed_back(wide, "int3", reference, chunks, quiet)
    moments = second_moments(reference, chunks, range(2), quiet)
    for (index, name), moment in moments.items():
        exact, *rounded = (getattr(d._layers[index], name).dequantised() for d in (reference, plain, fed))
        errors = [float((((exact - each) @ moment) * (exact - each)).sum()) for each in rounded]
        assert errors[1] < errors[0]
    assert fed.key == "int3 feedback"
    assert fed.weight_byte == plain.weight_byte


def test_chunks_are_whole_and_come_from_all_over_the_text():
    text = torch.arange(10 * CHUNK_TOKENS + 5)
    found = in_chunks(text, 10**6)
    assert (len(found), {len(chunk) for chunk in found}) == (10, {CHUNK_TOKENS})
    firsts = [int(chunk[0]) // CHUNK_TOKENS for chunk in itertools.islice(spread(found), 20)]
    assert sorted(firsts[:10]) == list(range(10))
    assert firsts[:10] == firsts[10:]
    assert max(firsts[:4]) - min(firsts[:4]) > 5
    assert {len(chunk) for chunk in in_chunks(text, 100)} == {100}
    with pytest.raises(ValueError, match="got a text of 5 tokens"):
        in_chunks(text[:5], 100)


def test_the_calibration_text_is_apart_from_the_text_of_accuracy():
    from kernels.accuracy.metrics import default_text

    text, other = calibration_text(), default_text()
    assert len(text) > 40_000
    lines = {line.strip() for line in text.splitlines() if len(line.strip()) > 60}
    assert sum(line in other for line in lines) < 0.01 * len(lines)
