"""The tokenizer against llama.cpp's on the same file."""

import pytest

from kernels.tokenizer import BytePairTokenizer

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
    with pytest.raises(ValueError, match="tokenizer 'llama' with pre-tokenizer None is not supported"):
        BytePairTokenizer({"tokenizer.ggml.model": "llama"})
