"""pandas is imported by the commands that make a table, and by no other."""

import json
import subprocess
import sys

import pytest

from tests.places import ROOT

CODE = """
import contextlib, io, json, sys
sys.path.insert(0, {root!r})
from app.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(json.dumps("pandas" in sys.modules))
"""


def imports_pandas(tmp_path, words):
    command = [sys.executable, "-c", CODE.format(root=str(ROOT)), *words.split()]
    environment = {"TRILEMMA_DATA_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("predict --weights int8", False),
        ("explain --weights int8", False),
        ("measure --help", False),
        ("calibrate --help", False),
        ("boards", False),
        ("sweep --over weights=int4,int8 --json", False),
        ("sweep --over weights=int4,int8", True),
        ("data export measurements -", True),
    ],
)
def test_a_command_that_makes_no_table_does_not_import_pandas(tmp_path, words, wanted):
    assert imports_pandas(tmp_path, words) is wanted
