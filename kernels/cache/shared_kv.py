"""A KV buffer that one process writes and any number of threads and processes read without locks: versioned reads.

Each layer has a region of whole 64 KiB pages: a tag of 64 bytes with the version, then its keys and values. A reader
copies and believes its copy when the version was even and is still the same (a sequence lock); a writer never waits.
"""

from __future__ import annotations

import ctypes
import os
import platform
import tempfile
import time
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from kernels.native.library import address, library

PAGE_BYTE = 65_536
TAG_BYTE = 64
_WORD = 8
_ATTEMPTS = 1000
_FIRST_VERSION = 2  # 0 says that a read gave up
_ORDERED = ("x86_64", "AMD64", "i686")  # stores and loads keep their order


def layer_stride_byte(n_tokens: int, token_byte: int) -> int:
    """Return the distance between the regions of two layers: whole pages for so many tokens and a tag."""
    if n_tokens < 1 or token_byte < 1:
        raise ValueError(f"n_tokens, token_byte: got {n_tokens}, {token_byte}, expected at least 1")
    return -(-(n_tokens * token_byte + TAG_BYTE) // PAGE_BYTE) * PAGE_BYTE


class SharedKvBuffer:
    """Keys and values of all layers in memory that processes share. Only one thread of one process may write.

    Parameters
    ----------
    n_layers, capacity, token_byte : int
        Sizes: layers, tokens a layer, bytes of one token's keys and values in a layer (a multiple of 8).
    file : Path, optional
        Of a buffer of the same sizes to be opened; a new one is made when None, in memory where the system has a
        folder for that.

    Attributes
    ----------
    file : Path
        What another process opens it by.
    """

    def __init__(self, n_layers: int, capacity: int, token_byte: int, file: Path | None = None) -> None:
        if n_layers < 1 or token_byte % _WORD:
            raise ValueError(
                f"n_layers, token_byte: got {n_layers}, {token_byte}, expected at least 1, a multiple of 8"
            )
        self._library = library()
        if self._library is None and platform.machine() not in _ORDERED:
            raise ValueError(f"{platform.machine()}: shared reads need the C library here, which is not available")
        self.n_layers, self.capacity, self.token_byte = n_layers, capacity, token_byte
        self._stride = layer_stride_byte(capacity, token_byte)
        size = n_layers * self._stride
        self._is_owner = file is None
        self.file = _new_file(size) if file is None else file
        if self.file.stat().st_size != size:
            raise ValueError(f"{self.file}: got {self.file.stat().st_size} bytes, expected {size} for these sizes")
        self._bytes = torch.from_file(str(self.file), shared=True, size=size, dtype=torch.uint8)
        if self._is_owner:
            for layer in range(n_layers):
                self._version(layer).fill_(_FIRST_VERSION)
        if self._library is not None:
            for function in (self._library.trilemma_shared_write, self._library.trilemma_shared_reads):
                function.restype = ctypes.c_uint64

    def _version(self, layer: int) -> Tensor:
        if not 0 <= layer < self.n_layers:
            raise ValueError(f"layer: got {layer}, expected 0..{self.n_layers - 1}")
        first = layer * self._stride
        return self._bytes[first : first + _WORD].view(torch.int64)

    def _tokens(self, layer: int, start: int, n: int) -> Tensor:
        if not (start >= 0 and 1 <= n <= self.capacity - start):
            raise ValueError(f"tokens: got {start}..{start + n - 1}, expected some of 0..{self.capacity - 1}")
        first = layer * self._stride + TAG_BYTE + start * self.token_byte
        return self._bytes[first : first + n * self.token_byte]

    def version(self, layer: int) -> int:
        """Return the version of a layer: it grows by 2 with each write, and is odd during one."""
        return int(self._version(layer))

    def write(self, layer: int, start: int, tokens: Tensor) -> int:
        """Write tokens [n, token_byte] uint8 of a layer, from token `start` on; return its new version."""
        version, target = self._version(layer), self._tokens(layer, start, len(tokens))
        source = _flat(tokens, self.token_byte)
        if self._library is not None:
            return int(self._library.trilemma_shared_write(*map(_pointer, (version, target, source)), _words(source)))
        before = int(version)
        version.fill_(before + 1)
        target.copy_(source)
        version.fill_(before + 2)
        return before + 2

    def read(self, layer: int, start: int, out: Tensor, patience_s: float = 10.0) -> int:
        """Copy tokens of a layer into out [n, token_byte] uint8, contiguous; return their version.

        Raises
        ------
        ValueError
            When the layer was being written all that time.
        """
        version, source = self._version(layer), self._tokens(layer, start, len(out))
        target = _flat(out, self.token_byte)
        found = self._read(version, source, target)
        if not found:  # the writer may have lost the processor in the middle of a write
            end_s = time.monotonic() + patience_s
            while not found and time.monotonic() < end_s:
                time.sleep(0)
                found = self._read(version, source, target)
        if not found:
            raise ValueError(f"layer {layer}: was being written for {patience_s:g} s, expected a moment's rest")
        return found

    def read_series(self, layer: int, start: int, out: Tensor) -> Tensor:
        """Copy the same tokens again and again while they may be written, into out [count, n, token_byte].

        Returns
        -------
        Tensor
            [count] int64: the version of each copy; 0 from where the writer rested in the middle of a write.
        """
        version, source = self._version(layer), self._tokens(layer, start, out.shape[1])
        target = _flat(out.view(-1, out.shape[2]), self.token_byte)
        return self._series(version, source, target, len(out))

    def _read(self, version: Tensor, source: Tensor, target: Tensor) -> int:
        return int(self._series(version, source, target, 1)[0])

    def _series(self, version: Tensor, source: Tensor, target: Tensor, count: int) -> Tensor:
        found = torch.zeros(count, dtype=torch.int64)
        if self._library is not None:
            arguments = (*map(_pointer, (version, source, target)), _words(source), _pointer(found))
            self._library.trilemma_shared_reads(*arguments, *map(ctypes.c_int64, (count, _ATTEMPTS)))
            return found
        for i, copy in enumerate(target.view(count, -1)):
            for _ in range(_ATTEMPTS):
                before = int(version)
                if before % 2 == 0:
                    copy.copy_(source)
                    if int(version) == before:
                        found[i] = before
                        break
            else:
                break
        return found

    def close(self) -> None:
        """Let go of the memory; who made it also removes it."""
        self._bytes = torch.empty(0, dtype=torch.uint8)
        if self._is_owner:
            self.file.unlink(missing_ok=True)

    def __enter__(self) -> SharedKvBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _new_file(size: int) -> Path:
    memory = Path("/dev/shm")
    handle, name = tempfile.mkstemp(prefix="trilemma-kv-", dir=memory if memory.is_dir() else None)
    os.truncate(handle, size)
    os.close(handle)
    return Path(name)


def _flat(tokens: Tensor, token_byte: int) -> Tensor:
    if tokens.dtype != torch.uint8 or tokens.ndim != 2 or tokens.shape[1] != token_byte or not tokens.is_contiguous():
        raise ValueError(
            f"tokens: got {tuple(tokens.shape)} of {tokens.dtype}, expected [n, {token_byte}] of uint8, contiguous"
        )
    return tokens.view(-1)


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(address(tensor))


def _words(tensor: Tensor) -> ctypes.c_int64:
    return ctypes.c_int64(tensor.numel() // _WORD)
