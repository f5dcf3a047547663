"""The tokenizer against llama.cpp's on the same file."""

import pytest

from kernels.decoder.tokenizer import BytePairTokenizer
from kernels.decoder.weights import ModelFile
from tests.kernels.conftest import LlamaCpp
from tests.tiny_gguf import write_tiny_gguf

TEXTS = [
    "",
    "Hello, world!",
    " leading and  double   spaces ",
    "tabs\tand\n\nnew\r\nlines\n \n  \n",
    "def f(x):\n    return {'a': x ** 2}  # comment\n",
    "numbers 1234567890 3.14 1e-5 0x1F ٣٤٥ ½ ²",
    "it's we're I'VE they'll don't",
    "Grüße, façade, naïve, Ελλάδα, Привет, שלום, مرحبا",
    "日本語の文章と한국어 문장、中文句子。",
    "emoji 👩‍👩‍👧‍👦 🇩🇪 👍🏽",
    "combining é vs é, zero\u200bwidth, nbsp\u00a0here, em\u2003space",
    "a" * 300,
    "!?!?...---===>>><<<",
    "\x00\x01\x7f control",
]


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_equal_llama_cpp(smollm2_tokenizer, llama_cpp, text):
    assert smollm2_tokenizer.encode(text) == llama_cpp.tokenize(text)


@pytest.mark.parametrize("text", TEXTS)
def test_decoding_restores_the_text(smollm2_tokenizer, text):
    assert smollm2_tokenizer.decode(smollm2_tokenizer.encode(text)) == text


def test_control_tokens_are_single_tokens(smollm2_tokenizer):
    tokens = smollm2_tokenizer.encode("<|im_start|>user\nhi<|im_end|>")
    assert tokens[0] == 1
    assert tokens[-1] == 2 == smollm2_tokenizer.end_token


def test_other_tokenizers_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match="tokenizer 't5' with pre-tokenizer 'default' is not supported"):
        BytePairTokenizer({"tokenizer.ggml.model": "t5"})


def sentence_pieces():
    """A small SentencePiece vocabulary: bytes, letters, and pieces that merge in the order of their scores."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    types, letters = [2, 3, 3, *[6] * 256], list("▁abcdefghijklmnopqrstuvwxyz.,é")
    merged = ["▁t", "he", "▁the", "▁a", "in", "▁in", "er", "▁▁"]
    scores = [0.0] * len(pieces) + [-1000.0 - i for i in range(len(letters))] + [-float(i) for i in range(len(merged))]
    types += [1] * (len(letters) + len(merged))
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*pieces, *letters, *merged],
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.eos_token_id": 2,
    }


@pytest.fixture(scope="module")
def sentence_piece_llama_cpp(tmp_path_factory):
    file = write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "spm.gguf", vocabulary=sentence_pieces())
    reference = LlamaCpp(file, n_ctx=64)
    yield reference, BytePairTokenizer(ModelFile(file).metadata)
    reference.close()


@pytest.mark.parametrize("text", ["the inner then", "  a the  in", "théâtre, zoë 日本", "", "thethe in.\n\nthe"])
def test_pieces_equal_llama_cpp(sentence_piece_llama_cpp, text):
    reference, tokenizer = sentence_piece_llama_cpp
    tokens = tokenizer.encode(text)
    assert tokens == reference.tokenize(text)
    assert tokenizer.decode(tokens) == text
