"""No text from elsewhere steers a terminal, turns our words around or breaks a line."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from app.printable import printable_tree
from core.catalogue.text_files import printable


@given(st.text(alphabet=st.characters(categories=None)))
def test_no_text_steers_a_terminal_or_turns_words_around(text):
    shown = printable(text)
    assert all(unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") or char in "\n\t" for char in shown)
    assert all(
        unicodedata.bidirectional(char) not in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI") for char in shown
    )
    assert printable(shown) == shown
    shown.encode()


def test_sequences_lose_what_makes_them_one_and_words_keep_their_letters():
    assert (
        printable("\x1b[2J\x1b]0;x\x07\x9b31m a\u202eb\u2066c\u2028d\ud800e\r\n\té أبج 板")
        == "[2J]0;x31m abcde\n\té أبج 板"
    )


def test_keys_and_values_at_any_depth():
    assert printable_tree({"a\x1b": ["\x1b]0;title\x07", {"b": "r\x9bed\n"}], "n": 5}) == {
        "a": ["]0;title", {"b": "red\n"}],
        "n": 5,
    }
