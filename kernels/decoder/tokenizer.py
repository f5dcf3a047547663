"""The tokenizer of a GGUF file, rebuilt from the metadata the file carries: byte-level BPE, or SentencePiece's BPE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6  # values of tokenizer.ggml.token_type
_SPACE = "▁"  # what SentencePiece writes for a space

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = {
    "llama-bpe": _LETTERS + r"\p{N}{1,3}" + _REST,
    "llama3": _LETTERS + r"\p{N}{1,3}" + _REST,
    "qwen2": _LETTERS + r"\p{N}" + _REST,
}
"""How text is cut before merging, by ``tokenizer.ggml.pre``, where it is not GPT-2's way."""
PRE_TOKENIZERS = ("smollm", "gpt-2", "default", *_PATTERNS)


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
        kind = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
        if kind[0] == "llama":
            self._tokenizer = _sentence_piece(metadata)
        elif kind[0] == "gpt2" and kind[1] in PRE_TOKENIZERS:
            self._tokenizer = _byte_level(metadata, str(kind[1]))
        else:
            raise ValueError(
                f"tokenizer {kind[0]!r} with pre-tokenizer {kind[1]!r} is not supported, expected 'llama', or 'gpt2' "
                + "with "
                + ", ".join(map(repr, PRE_TOKENIZERS))
            )
        types: list[int] = metadata["tokenizer.ggml.token_type"]
        special = [
            AddedToken(token, special=True, normalized=False)
            for token, of_type in zip(metadata["tokenizer.ggml.tokens"], types, strict=True)
            if of_type in (_CONTROL, _USER_DEFINED)
        ]
        self._tokenizer.add_special_tokens(special)
        self.end_token = int(metadata.get("tokenizer.ggml.eos_token_id", -1))

    def encode(self, text: str) -> list[int]:
        """Split text into tokens; the names of control tokens in it become those tokens."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Join tokens into text, control tokens included; bytes that are not UTF-8 become U+FFFD."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))


def _byte_level(metadata: Mapping[str, Any], pre: str) -> Tokenizer:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    parts: list[pre_tokenizers.PreTokenizer] = []
    if pre == "smollm":
        parts.append(pre_tokenizers.Digits(individual_digits=True))
    elif pre in _PATTERNS:
        parts.append(pre_tokenizers.Split(Regex(_PATTERNS[pre]), "isolated"))
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre not in _PATTERNS))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_piece(metadata: Mapping[str, Any]) -> Tokenizer:
    """Rebuild a SentencePiece BPE model: pieces merge in the order of their scores, unknown characters become bytes."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    scores: list[float] = metadata["tokenizer.ggml.scores"]
    types: list[int] = metadata["tokenizer.ggml.token_type"]
    pieces = {token: i for i, token in enumerate(tokens) if types[i] not in (_UNKNOWN, _CONTROL, _BYTE)}
    merges = []
    for piece, index in pieces.items():
        parts = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        found = [pair for pair in parts if pair[0] in pieces and pair[1] in pieces]
        found.sort(key=lambda pair: (pieces[pair[0]], pieces[pair[1]]))
        merges += [(-scores[index], pair) for pair in found]
    merges.sort(key=lambda merge: merge[0])
    unknown = next((token for token, of_type in zip(tokens, types, strict=True) if of_type == _UNKNOWN), None)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, [pair for _, pair in merges], unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    replaced = normalizers.Replace(" ", _SPACE)
    prefixed = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replaced] if prefixed else [replaced])
    steps: list[decoders.Decoder] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefixed else steps)
    return tokenizer
