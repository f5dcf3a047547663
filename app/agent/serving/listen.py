"""Listening side of ``agent serve``: addresses, sockets and their secrets."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import ssl
from pathlib import Path
from typing import Tuple

from app.secure import (
    PORT,
    TOKEN_BIT,
    SecurityError,
    fingerprint,
    new_token,
    read_private,
    tls_context,
    write_private,
)

BACKLOG = 1024  # connections that wait to be accepted: in a flood the system drops no first packet of a client


def folder() -> Path:
    """Return the folder of the agent's secrets, in the user's folder for settings."""
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(settings) / "trilemma" / "agent"


def socket_path() -> Path:
    """Return the default path of the Unix socket: in the user's runtime folder, else with the secrets."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(runtime) / "trilemma" if runtime else folder()) / "agent.sock"


def loopback_token() -> str:
    """Return the token that programs of this user prove on the loopback; made when there is none."""
    path = folder() / "loopback-token"
    if not path.exists():
        write_private(path, new_token())
    return read_private(path).strip()


def paired_secrets() -> Tuple[ssl.SSLContext, str, str]:
    """Return the secrets of a pairing: the TLS context, its certificate's fingerprint, the token.

    Raises
    ------
    SecurityError
        If there is no pairing, or others can read it.
    """
    pem, token = folder() / "tls.pem", folder() / "token"
    if not pem.exists() or not token.exists():
        raise SecurityError(
            "an address beyond the loopback takes a certificate and a token: "
            "expected them here already, trilemma pair [user@]host on the desktop puts them"
        )
    text = read_private(pem)
    context = tls_context(server=True)
    try:
        context.load_cert_chain(str(pem))
        certificate = fingerprint(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :]))
    except (ssl.SSLError, ValueError):
        raise SecurityError(f"{pem} holds no certificate with its key: trilemma pair makes it anew") from None
    secret = read_private(token).strip()
    if len(secret) != TOKEN_BIT // 4:
        raise SecurityError(f"{token} holds no token of {TOKEN_BIT} bits: trilemma pair makes it anew")
    return context, certificate, secret


def split_address(text: str) -> Tuple[str, int]:
    """Return host and port of ``HOST[:PORT]`` or ``[IPV6]:PORT``.

    Raises
    ------
    ValueError
        If it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT)
    balanced = host.startswith("[") == host.endswith("]")
    if not host or not balanced or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ValueError(f"--bind {text}: expected HOST:PORT, the port 0 to 65535")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return True for loopback addresses and the name localhost; other names are never resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; OSError with the address where it cannot."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from None
    listener.listen(BACKLOG)
    return listener


def listen_unix(path: Path) -> Tuple[socket.socket, str]:
    """Return a Unix socket that only its owner can open, and the target that reaches it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()  # of an agent that was killed
        else:
            raise OSError(0, f"an agent serves at {path} already")
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)  # so that the socket is never open to others, not for a moment
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    listener.listen(BACKLOG)
    return listener, f"unix:{path}"


def shown(listener: socket.socket) -> str:
    """Return the address of a socket as ``HOST:PORT``."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
