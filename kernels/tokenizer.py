"""The byte-level BPE tokenizer of a GGUF file, rebuilt from the metadata the file carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_CONTROL, _USER_DEFINED = 3, 4  # values of tokenizer.ggml.token_type


class BytePairTokenizer:
    """Text to tokens and back.

    Parameters
    ----------
    metadata : mapping
        Metadata of a GGUF file: ``tokenizer.ggml.*``.

    Raises
    ------
    ValueError
        When the file carries another kind of tokenizer.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        kind = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
        if kind != ("gpt2", "smollm"):
            raise ValueError(
                f"tokenizer {kind[0]!r} with pre-tokenizer {kind[1]!r} is not supported, expected 'gpt2', 'smollm'"
            )
        tokens: list[str] = metadata["tokenizer.ggml.tokens"]
        merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
        self._tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self._tokenizer.decoder = decoders.ByteLevel()
        types: list[int] = metadata["tokenizer.ggml.token_type"]
        special = [
            AddedToken(t, special=True, normalized=False)
            for t, kind in zip(tokens, types, strict=True)
            if kind in (_CONTROL, _USER_DEFINED)
        ]
        self._tokenizer.add_special_tokens(special)
        self.end_token = int(metadata.get("tokenizer.ggml.eos_token_id", -1))

    def encode(self, text: str) -> list[int]:
        """Split text into tokens; the names of control tokens in it become those tokens."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Join tokens into text, control tokens included; bytes that are not UTF-8 become U+FFFD."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))
