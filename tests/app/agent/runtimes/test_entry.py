"""The file of runtimes."""

import os
import re

import pytest

from app.agent.runtimes.entry import parse_entries, read_entries


@pytest.mark.parametrize(
    ("record_", "words"),
    [
        ("[", "is not JSON: expected a list of runtimes"),
        ('{"runtime": "a"}', "expected a list of at most 32 runtimes"),
        ("[3]", "runtime 1: got 3, expected an object"),
        ('[{"runtime": "a", "kind": "ollama"}]', "runtime 1: model: got '', expected a text"),
        ('[{"runtime": "a", "kind": "x", "model": "m"}]', "kind: got 'x', expected one of llama-server"),
        ('[{"runtime": "a", "kind": "ollama", "model": "m", "url": "ftp://x"}]', "url: got 'ftp://x'"),
        ('[{"runtime": "a", "kind": "ollama", "model": "m", "url": "http://a:b"}]', "url: got 'http://a:b'"),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m"}]', "argv: is missing"),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m", "argv": "rm -rf"}]', "argv: got 'rm -rf', expected a list"),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m", "argv": ["x"], "timeout_s": 0}]', "timeout_s: got 0"),
        (
            '[{"runtime": "a", "kind": "llama-server", "model": "m", "url": "http://h:1", "argv": ["{context}"]}]',
            "argv: {context} is not known when a server starts",
        ),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m", "argv": ["x"], "shell": 1}]', "unknown member 'shell'"),
    ],
)
def test_a_wrong_file_of_runtimes_is_refused_in_a_sentence(tmp_path, record_, words):
    path = tmp_path / "runtimes.json"
    path.write_text(record_, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        read_entries(path)
    assert str(caught.value).startswith(str(path))


def test_the_same_model_twice_is_refused():
    one = '{"runtime": "a", "kind": "rkllm", "model": "m", "argv": ["x"]}'
    with pytest.raises(ValueError, match="runtime 2: a with m is listed twice"):
        parse_entries(f"[{one}, {one}]", "f")


def test_no_file_holds_no_runtime(tmp_path):
    assert read_entries(tmp_path / "none.json") == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_a_file_of_runtimes_without_an_end_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ValueError, match="not a file"):
            read_entries(path)
    (tmp_path / "large").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ValueError, match="got more than 1 MiB, expected a smaller file"):
        read_entries(tmp_path / "large")
