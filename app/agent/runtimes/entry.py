"""Runtimes that a board's owner allows: running servers, and exact commands that the agent may start."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple
from urllib.parse import unquote, urlsplit

from app.agent.files import written

SERVERS = ("llama-server", "ollama", "openai")
COMMANDS = ("llama-bench", "rkllm")
KINDS = SERVERS + COMMANDS  # each is the name of the module that drives it, with "-" for "_"
MAX_ENTRIES = 32
_TEXTS = (
    *("runtime", "kind", "model", "url", "name", "weights", "kv"),
    *("key_file", "key_env", "key", "key_header", "ca_file"),
)
_MORE_PATH = {  # behind what the driver adds its own paths to
    "llama-server": r"/v1$",
    "ollama": r"/(?:v1|api)$",
    "openai": r"/(?:chat/)?completions$|/models$",
}


@dataclass(frozen=True)
class RuntimeEntry:
    """One runtime with one model.

    Attributes
    ----------
    runtime
        Key of the runtime in Trilemma's catalogue ("llamacpp_cpu", "rkllm_npu", ...).
    kind
        Interface, one of `KINDS`.
    model
        Key of the model in Trilemma's catalogue.
    url
        Of a server: ``http://127.0.0.1:8080``.
    argv
        Command that may be started: the measuring command, or the server when none answers at `url`. No shell reads it;
        ``{model_file}``, ``{kv}``, ``{threads}``, ``{context}`` and ``{n_predict}`` are filled in.
    name
        What the server calls the model, or the model's file on the board.
    weights, kv
        Formats it runs in, where it does not tell.
    key_file, key_env, key
        File or environment variable that holds the API key, or the key. It is sent to the server and nowhere else.
    key_header
        Header that takes the key as it is, such as ``X-API-Key``, in place of ``Authorization: Bearer``.
    ca_file
        Certificate of a private CA, or of the server itself (PEM).
    timeout_s
        Longest silence of a run.
    """

    runtime: str
    kind: str
    model: str
    url: str = ""
    argv: Tuple[str, ...] = ()
    name: str = ""
    weights: str = ""
    kv: str = ""
    key_file: str = ""
    key_env: str = ""
    key: str = field(default="", repr=False)
    key_header: str = ""
    ca_file: str = ""
    timeout_s: float = 120.0

    def message(self) -> Dict[str, str]:
        """Return the entry as a message of the agent."""
        names = ("runtime", "kind", "model", "weights", "kv", "where")
        return {name: getattr(self, name) for name in names}

    @property
    def where(self) -> str:
        """Name in sentences."""
        return f"{self.kind} at {self.address}" if self.url else f"{self.kind} ({self.argv[0]})"

    @property
    def address(self) -> str:
        """The url without a user's name and password."""
        return re.sub(r"^(\w+://)[^/@]*@", r"\1", self.url)

    @property
    def key_source(self) -> str:
        """Where the API key comes from, in words; "" where there is none."""
        if self.key:
            return "key"
        return f"key_env {self.key_env}" if self.key_env else f"key_file {self.key_file}" if self.key_file else ""

    def command(self, values: Mapping[str, object]) -> List[str]:
        """Return `argv` with its placeholders filled in."""
        filled = {"model_file": self.name, **{name: str(value) for name, value in values.items()}}
        argv = []
        for word in self.argv:
            for name, value in filled.items():
                word = word.replace("{" + name + "}", value)
            argv.append(word)
        return argv

    def secrets(self) -> List[str]:
        """Return what never leaves the board: the API key, and the password of the url.

        Raises
        ------
        ValueError
            The key cannot be read, or is none; the sentence does not contain it.
        """
        try:
            key = self.key or (os.environ[self.key_env] if self.key_env else "")
            if not key and self.key_file:
                key = written(Path(self.key_file).expanduser())
        except KeyError:
            raise ValueError(f"{self.key_env} is not set in the environment of the agent") from None
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(f"{self.key_file}: {getattr(error, 'strerror', None) or error}") from None
        key, password = key.strip(), unquote(urlsplit(self.url).password or "")
        if any(not "!" <= char <= "~" for char in key):
            raise ValueError(f"{self.key_source} is not one word of ASCII letters, digits and signs")
        return [secret for secret in (key, password) if secret]

    def headers(self) -> Dict[str, str]:
        """Return the HTTP headers that let us in; `ValueError` as `secrets`."""
        secrets, parts = self.secrets(), urlsplit(self.url)
        if self.key_source:
            return {self.key_header: secrets[0]} if self.key_header else {"Authorization": f"Bearer {secrets[0]}"}
        if parts.username is None:
            return {}
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}


def entries_file() -> Path:
    """Return the file of configured runtimes: ``TRILEMMA_RUNTIMES``, else in ``TRILEMMA_DATA_DIR`` or for settings."""
    named, data = os.environ.get("TRILEMMA_RUNTIMES"), os.environ.get("TRILEMMA_DATA_DIR")
    if named or data:
        return Path(named) if named else Path(data or "") / "runtimes.json"
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "trilemma" / "runtimes.json"


def read_entries(path: Path) -> List[RuntimeEntry]:
    """Read the file of runtimes; one that does not exist holds none.

    Raises
    ------
    ValueError
        One sentence: the file, the entry, the member, what was expected.
    """
    try:
        text = written(path)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse_entries(text, str(path))


def parse_entries(text: str, name: str) -> List[RuntimeEntry]:
    """Read entries from JSON: ``[{"runtime": ..., "kind": ..., "model": ..., ...}, ...]``.

    Raises
    ------
    ValueError
        As `read_entries`.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{name}: is not JSON: expected a list of runtimes") from None
    if not isinstance(data, list) or len(data) > MAX_ENTRIES:
        raise ValueError(f"{name}: expected a list of at most {MAX_ENTRIES} runtimes")
    entries = [_entry(record, f"{name}: runtime {i}") for i, record in enumerate(data, 1)]
    keys = [(entry.runtime, entry.model) for entry in entries]
    for i, key in enumerate(keys):
        if key in keys[:i]:
            raise ValueError(f"{name}: runtime {i + 1}: {key[0]} with {key[1]} is listed twice")
    return entries


def _entry(record: Any, where: str) -> RuntimeEntry:
    if not isinstance(record, dict):
        raise ValueError(f"{where}: got {record!r:.40}, expected an object")
    unknown = sorted(set(record) - {*_TEXTS, "argv", "timeout_s"})
    if unknown:
        raise ValueError(
            f"{where}: unknown member {unknown[0]!r}; there are {', '.join((*_TEXTS, 'argv', 'timeout_s'))}"
        )
    texts = _texts(record, where)
    argv, timeout_s = record.get("argv", []), record.get("timeout_s", 120.0)
    if not isinstance(argv, list) or any(not isinstance(word, str) or "\0" in word for word in argv):
        raise ValueError(f"{where}: argv: got {argv!r:.40}, expected a list of texts")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 1 <= timeout_s <= 3600:
        raise ValueError(f"{where}: timeout_s: got {timeout_s!r:.40}, expected 1 to 3600")
    if texts["kind"] in COMMANDS and not argv:
        raise ValueError(f"{where}: argv: is missing: {texts['kind']} is a command that has to be started")
    if texts["kind"] in SERVERS:
        _check_url(texts["url"], where)
        _check_start(argv, where)
        texts["url"] = re.sub(_MORE_PATH[texts["kind"]], "", texts["url"].rstrip("/"))
    return RuntimeEntry(argv=tuple(argv), timeout_s=float(timeout_s), **texts)


def _texts(record: Mapping[str, Any], where: str) -> Dict[str, str]:
    texts = {name: record.get(name, "") for name in _TEXTS}
    for name, value in texts.items():
        if not isinstance(value, str) or (not value and name in ("runtime", "kind", "model")):
            got = "another kind of value" if name == "key" else repr(value)
            raise ValueError(f"{where}: {name}: got {got:.40}, expected a text")
    if texts["kind"] not in KINDS:
        raise ValueError(f"{where}: kind: got {texts['kind']!r:.40}, expected one of {', '.join(KINDS)}")
    if not re.fullmatch(r"[A-Za-z0-9-]*", texts["key_header"]):
        raise ValueError(f"{where}: key_header: got {texts['key_header']!r:.40}, expected a name such as X-API-Key")
    return texts


def _check_start(argv: Sequence[str], where: str) -> None:
    for name in ("{context}", "{n_predict}"):
        if any(name in word for word in argv):
            raise ValueError(f"{where}: argv: {name} is not known when a server starts, expected a number")


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(char.isspace() for char in url):
        shown = re.sub(r"//[^/@]*@", "//", url)
        raise ValueError(f"{where}: url: got {shown!r:.60}, expected one like http://127.0.0.1:8080")
