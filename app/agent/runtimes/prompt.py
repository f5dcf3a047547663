"""The text that runtimes are measured on: English that every Python carries."""

from __future__ import annotations

import random

TOKENS_A_WORD = 1.3
"""Of English text in the vocabularies of current models; only a first guess of how much text a prompt needs."""

_SPARE = "An edge board reads its weights from memory once for every token that it generates. "


def text(n_char: int) -> str:
    """Return at least `n_char` characters of text."""
    try:
        from pydoc_data import topics

        words = "\n\n".join(topics.topics[name] for name in sorted(topics.topics))
    except ImportError:  # Debian's python3-minimal leaves it out
        words = _SPARE
    return words * (n_char // len(words) + 1)


def fresh(n_char: int, seed: int) -> str:
    """Return text whose first words no earlier run has sent, so that no server's cache knows it."""
    start = random.Random(seed).randrange(1 << 30)
    return f"Run {start}. " + text(n_char)[:n_char]
