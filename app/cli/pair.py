"""``trilemma pair``: give a board its certificate and token once through ssh, to attach it over TLS."""

from __future__ import annotations

import argparse
import shlex

from app.cli.shared.output import UserError, print_json
from app.cli.shared.target import add_ssh_config
from app.client.pairing import pair
from app.client.ssh import SshTarget
from app.secure import PORT, SecurityError

EXAMPLES = """example:
  trilemma pair user@orin                           prints the command to run on the board
  trilemma attach tls://orin                        afterwards"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the board."""
    parser.add_argument("board", metavar="[user@]host", help="ssh destination of the board")
    add_ssh_config(parser)


def run(args: argparse.Namespace) -> int:
    """Pair, and print the next steps."""
    try:
        pairing, command = pair(SshTarget(args.board, args.ssh_config))
    except (SecurityError, ValueError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(error.strerror or str(error)) from error
    serve = shlex.join(command)
    target = f"tls://{pairing.name}:{PORT}"
    if args.json:
        report = {"board": pairing.name, "host": pairing.host, "fingerprint": pairing.fingerprint}
        print_json({**report, "serve": serve, "target": target})
    else:
        print(f"Paired with {pairing.name}; its certificate is SHA-256 {pairing.fingerprint}.")
        print(f"Start there:  {serve}")
        print(f"Attach here:  trilemma attach {target}")
    return 0
