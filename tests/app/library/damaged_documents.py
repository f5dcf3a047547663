"""A data folder with one damaged document, and the commands that must work in spite of it.

``python -m tests.app.library.damaged_documents 2000`` tries as many.
"""

import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from app.cli import main
from app.library import board_library
from app.library.machine import machine_key
from tests.places import DATA

COMMANDS = (
    ("predict", "--json"),
    ("boards", "--json"),
    ("explain", "--json"),
    ("calibrate", "--list", "--json"),
    ("calibrate", "--fit-only", "--json"),
    ("predict", "--board", "sim:jetson_orin_nano_8gb_super,seed=3", "--json"),
    ("predict", "--board", "raspberry_pi_5", "--runtime", "llamacpp_cpu", "--weights", "q4_k_m", "--json"),
    ("sweep", "--over", "alpha=0,0.5", "--json"),
    ("lab", "knee", "--json"),
)
MAY_FAIL = (("calibrate", "--fit-only"), ("predict", "--board", COMMANDS[5][2]))
"""What is left out may be all that these need."""
DEEP = "[" * 5000 + "]" * 5000
VALUES = (
    *("null", "true", "0", "-1", "1e308", "-1e308", "1e999", "5e-324", "NaN", "Infinity", "9" * 400, "9" * 5000),
    *('""', '"text"', '"\\ud800"', '"\\u202e\\u001b[31m"', '"\\u0000"', "[]", "{}", '{"a": [{}]}', "[[1]]", DEEP),
)
N_LINES = 8
HELLO = {
    "board": {"cpu": "Example CPU", "n_threads": 2, "id": "0123456789ab"},
    "can": {"torch": "2.13.0+cpu"},
    "models": [{"file": "SmolLM2-135M-Instruct.Q4_1.gguf", "byte": 98362432}],
}
MACHINE = machine_key(HELLO)
PLACE = "\0here\0"


def make_folder(folder):
    """Fill a folder with documents of version 0.1 and, taken over from them, those of this version."""
    shutil.copytree(DATA / "data_folder_v1" / "data" / "trilemma", folder, dirs_exist_ok=True)
    shutil.copytree(DATA / "data_folder_v1" / "config" / "trilemma", folder, dirs_exist_ok=True)
    lines = (folder / "measurements.jsonl").read_bytes().splitlines(keepends=True)
    own = [line for line in lines if json.loads(line)["machine"] == MACHINE]
    (folder / "measurements.jsonl").write_bytes(b"".join(own[:: len(own) // N_LINES] + lines[::-1][:N_LINES]))


def documents(folder):
    """Return the documents of a folder that a command reads, by their names in it."""
    found = (
        path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in (".json", ".jsonl", ".csv")
    )
    return [path.relative_to(folder) for path in found]


def damage(path, random):
    """Damage a document in one way; return the way."""
    content = path.read_bytes()
    ways = [cut, flipped, emptied, filled, replaced, *([changed] * 5 if path.suffix != ".csv" else [cell] * 4)]
    way = random.choice(ways)
    way(path, content, random)
    return way.__name__


def cut(path, content, random):
    """Cut the end off."""
    path.write_bytes(content[: random.randrange(len(content))])


def flipped(path, content, random):
    """Flip a few bits."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def emptied(path, content, random):
    """Leave nothing."""
    path.write_bytes(b"")


def filled(path, content, random):
    """Put a block of zeros or noise in its midst."""
    at, n_byte = random.randrange(len(content)), random.choice((1, 512))
    block = random.choice((bytes(n_byte), random.randbytes(n_byte)))
    path.write_bytes(content[:at] + block + content[at + n_byte :])


def replaced(path, content, random):
    """Put something else than a file there."""
    path.unlink()
    kind = random.choice(("folder", "pipe", "link", "device"))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe" and hasattr(os, "mkfifo"):
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path.with_name("nowhere"))


def cell(path, content, random):
    """Replace a cell of a table."""
    lines = content.decode().splitlines()
    at = random.randrange(len(lines))
    cells = lines[at].split(",")
    cells[random.randrange(len(cells))] = random.choice((*VALUES[:-1], "a,b", '"', "\x1b[31m"))
    lines[at] = ",".join(cells)
    path.write_text("\n".join(lines), encoding="utf-8")


def changed(path, content, random):
    """Replace, remove or double a value at any depth of a document, or of a line of one."""
    lines = content.decode().splitlines() if path.suffix == ".jsonl" else [content.decode()]
    at = random.randrange(len(lines))
    document = json.loads(lines[at])
    node, key = random.choice(list(places(document)))
    value, how = random.choice(VALUES), random.random()
    if how < 0.15:
        del node[key]
    elif how < 0.25 and isinstance(node, dict):
        value = f"{json.dumps(node[key])}, {json.dumps(key)}: {value}"
        node[key] = PLACE
    else:
        node[key] = PLACE
    lines[at] = json.dumps(document).replace(json.dumps(PLACE), value)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def places(document):
    """Yield the container and the key of every value of a document."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        yield document, key
        if isinstance(value, (dict, list)):
            yield from places(value)


def problems(folder, words):
    """Run a command and return what is wrong with its answer."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return [f"{type(error).__name__}: {error!s:.300}"], ""
    said = err.getvalue()
    found = []
    if status and not any(words[: len(may)] == may for may in MAY_FAIL):
        found.append(f"status {status}: {said.strip()[:400]}")
    if status not in (0, 1, 2) or "Traceback" in said or (status and not said.strip()):
        found.append(f"status {status}: {said[:400]}")
    if any(len(line) > 1500 for line in said.splitlines()):
        found.append(f"a sentence of {max(map(len, said.splitlines()))} characters: {said[:200]}")
    if status == 0:
        try:
            json.loads(out.getvalue(), parse_constant=lambda name: found.append(f"{name} in the answer"))
        except ValueError:
            found.append(f"no JSON: {out.getvalue()[:200]!r}")
    return found, said


def try_one(whole, seed, folder, n_commands=1):
    """Damage one document of a copy of `whole`; return the damage, and what is wrong."""
    chance = random.Random(seed)
    shutil.copytree(whole, folder)
    name = chance.choice(documents(folder))
    way = damage(folder / name, chance)
    wrong, said = [], ""
    for words in chance.sample(COMMANDS, n_commands):
        found, told = problems(folder, words)
        wrong += [f"{' '.join(words)}: {one}" for one in found]
        said += told
    read = name.parts[0] in ("boards", "measurements.jsonl", "imported.csv")
    sure = (way == "replaced" and (folder / name).exists()) or (way == "emptied" and name.suffix == ".json")
    if read and sure and not wrong and name.name not in said:
        wrong.append(f"{name} is not named: {said[:300]!r}")
    return f"{seed}: {name} {way}", wrong


def prepared(folder):
    """Make a folder of a known machine and let a first command take its older documents over."""
    board_library.hello_here, board_library.this_machine = lambda: HELLO, lambda: MACHINE
    make_folder(folder)
    os.environ["TRILEMMA_DATA_DIR"] = str(folder)
    assert problems(folder, ("boards", "--json"))[0] == []


if __name__ == "__main__":
    start_s, n_wrong, first, n = time.monotonic(), 0, int((sys.argv[2:] or ["0"])[0]), int(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        prepared(Path(temporary) / "whole")
        for seed in range(first, first + n):
            one = Path(temporary) / "one"
            os.environ["TRILEMMA_DATA_DIR"] = str(one)
            damaged, wrong = try_one(Path(temporary) / "whole", seed, one)
            n_wrong += bool(wrong)
            for sentence in wrong:
                print(damaged, sentence, flush=True)
            shutil.rmtree(one)
    print(f"{n} damaged documents, {n_wrong} with something wrong, {time.monotonic() - start_s:.0f} s")
