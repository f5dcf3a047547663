"""``agent install``: takes what ``trilemma pair`` sends through ssh: the one time that an agent writes files."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict

from app.agent.launch import archive_bytes
from app.agent.main import claim_stdout
from app.agent.serving.listen import folder
from app.protocol import Decoder, ProtocolError, decode_control, encode_control
from app.secure import PORT, write_private


def main() -> int:
    """Write certificate, key, token and the agent itself into `folder`, and answer with the command that serves."""
    write_fd = claim_stdout()
    try:
        message = _read(0)
        command = ["trilemma", "agent"]
        archive = archive_bytes()
        if archive is not None:  # first, for it is what a full disk has no room for
            path = folder() / "trilemma-agent.pyz"
            write_private(path, archive)
            command = ["python3", str(path)]
        write_private(folder() / "tls.pem", message["pem"])
        write_private(folder() / "token", message["token"] + "\n")
        command += ["serve", "--bind", f"0.0.0.0:{PORT}"]
    except ProtocolError as error:
        print(f"trilemma: not paired: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"trilemma: not paired: {error.filename or folder()}: {error.strerror}", file=sys.stderr)
        return 1
    os.write(write_fd, encode_control({"op": "paired", "folder": str(folder()), "command": command}, 0))
    return 0


def _read(fd: int) -> Dict[str, Any]:
    decoder = Decoder()
    while True:
        data = os.read(fd, 65536)
        if not data:
            raise ProtocolError("the link ended early")
        for frame in decoder.feed(data):
            message = decode_control(frame.body)
            if message["op"] == "pair":
                return message
