"""The shared buffer under real threads and processes."""

import subprocess
import sys
import threading

import pytest
import torch

from core.articles.banks import layer_stride_byte as stride_formula
from kernels.cache import shared_kv
from kernels.cache.shared_kv import PAGE_BYTE, SharedKvBuffer, layer_stride_byte
from tests.places import ROOT
from tests.processes import running
from tests.waiting import attempts

TOKEN_BYTE = 64
BATCH = 5000
N_SEEN = 10
"""Values a reader has to meet: then writes and reads were interleaved."""


@pytest.fixture(params=[True, False], ids=["native", "torch"])
def path(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(shared_kv, "library", lambda: None)


def token(value):
    return torch.full((1, TOKEN_BYTE), value % 256, dtype=torch.uint8)


def test_regions_are_whole_pages_as_the_formula_says():
    assert layer_stride_byte(2048, 2 * 2 * 8 * 128) == 8_454_144 == 129 * PAGE_BYTE  # Llama-3-8B, fp16
    for n in (1, 63, 64, 1023, 5000):
        assert layer_stride_byte(n, 4096) == stride_formula(n, 4096)
    with pytest.raises(ValueError, match="n_tokens, token_byte: got 0, 8"):
        layer_stride_byte(0, 8)


def test_reads_what_was_written(path):
    with SharedKvBuffer(3, 100, TOKEN_BYTE) as buffer:
        before = buffer.version(1)
        data = torch.randint(0, 256, (7, TOKEN_BYTE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        assert buffer.write(1, 93, data) == before + 2 == buffer.version(1)
        out = torch.empty(7, TOKEN_BYTE, dtype=torch.uint8)
        assert buffer.read(1, 93, out) == before + 2
        assert torch.equal(out, data)
        assert buffer.version(0) == buffer.version(2) == before
        for layer in (0, 2):
            assert buffer.read(layer, 93, out)
            assert not out.any()


def test_a_read_during_a_write_is_refused_and_never_torn(path):
    with SharedKvBuffer(1, 10, TOKEN_BYTE) as buffer:
        buffer._version(0).fill_(buffer.version(0) + 1)  # as if the writer were at work
        with pytest.raises(ValueError, match="layer 0: was being written for"):
            buffer.read(0, 0, token(0), patience_s=0.01)


def read_all(buffer, n, torn, seen):
    """Read n times, and until `N_SEEN` values were met; every copy must be of one value throughout, and versions never
    go back.
    """
    out, last = torch.empty(BATCH, 1, TOKEN_BYTE, dtype=torch.uint8), 0
    for _ in attempts():
        if n <= 0 and len(seen) >= N_SEEN:
            return
        versions = buffer.read_series(0, 0, out)
        done = int((versions > 0).sum())
        n -= done
        copies = out[:done, 0]
        torn += copies[(copies != copies[:, :1]).any(1)].tolist()
        torn += versions[:done][
            torch.cat([torch.tensor([last]), versions[: max(done - 1, 0)]])[:done] > versions[:done]
        ]
        last = int(versions[done - 1]) if done else last
        seen.update(copies[:, 0].tolist())


@pytest.mark.parametrize("n_reads", [1_000_000])
def test_threads_never_see_half_a_write(n_reads):
    torn, seen, stop = [], set(), threading.Event()
    with SharedKvBuffer(1, 1, TOKEN_BYTE) as buffer:
        values = [token(value) for value in range(256)]

        def write():
            i = 0
            while not stop.is_set():
                buffer.write(0, 0, values[i % 256])
                i += 1

        writer = threading.Thread(target=write)
        readers = [threading.Thread(target=read_all, args=(buffer, n_reads // 2, torn, seen)) for _ in range(2)]
        for thread in (writer, *readers):
            thread.start()
        for thread in readers:
            thread.join()
        stop.set()
        writer.join()
    assert not torn
    assert len(seen) >= N_SEEN


WRITER = """
import sys, threading, torch
from pathlib import Path
from kernels.cache.shared_kv import SharedKvBuffer
token_byte, stop = int(sys.argv[2]), threading.Event()
buffer = SharedKvBuffer(1, 1, token_byte, Path(sys.argv[1]))
values = [torch.full((1, token_byte), value, dtype=torch.uint8) for value in range(256)]
threading.Thread(target=lambda: (sys.stdin.read(), stop.set())).start()
print("ready", flush=True)
i = 0
while not stop.is_set():
    buffer.write(0, 0, values[i % 256])
    i += 1
buffer.close()
"""


def test_processes_never_see_half_a_write():
    torn, seen = [], set()
    with SharedKvBuffer(1, 1, TOKEN_BYTE) as buffer:
        command = [sys.executable, "-c", WRITER, str(buffer.file), str(TOKEN_BYTE)]
        with running(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "ready\n"
            read_all(buffer, 200_000, torn, seen)
            writer.communicate("")
        assert writer.returncode == 0
        assert buffer.file.exists()
    assert not buffer.file.exists()
    assert not torn


def test_wrong_arguments_raise():
    with pytest.raises(ValueError, match="n_layers, token_byte: got 1, 12"):
        SharedKvBuffer(1, 10, 12)
    with SharedKvBuffer(2, 10, TOKEN_BYTE) as buffer:
        with pytest.raises(ValueError, match="layer: got 2"):
            buffer.read(2, 0, token(0))
        with pytest.raises(ValueError, match="tokens: got 9"):
            buffer.write(0, 9, torch.zeros(2, TOKEN_BYTE, dtype=torch.uint8))
        with pytest.raises(ValueError, match="tokens: got"):
            buffer.write(0, 0, torch.zeros(1, 8, dtype=torch.uint8))
        with pytest.raises(ValueError, match="for these sizes"):
            SharedKvBuffer(2, 5000, TOKEN_BYTE, buffer.file)
