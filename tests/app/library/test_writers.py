"""Writers at once lose nothing, locks end with their process, and what a killed writer left is removed."""

import multiprocessing
import os
import subprocess
import sys
import time

import pytest

from app.library import files
from app.library.board_document import document_name
from app.library.board_library import BoardLibrary
from app.library.files import FileError, alone, remove_leftovers, write_whole
from app.library.imported import add_rows
from tests.places import ROOT
from tests.processes import running

AT_ONCE, EACH = 4, 3


def attach(folder, number):
    library = BoardLibrary(folder, print)
    for i in range(EACH):
        name = f"sim:{number}-{i}"
        library.remember_target(name, {"board": {"cpu": "a", "id": f"{number}-{i % 2}"}, "simulated": True})


def add(folder, number):
    for i in range(EACH):
        assert add_rows(folder / "imported.csv", [{"board_key": f"{number}-{i}", "decode_ms_per_tok": "1"}]) == 1


def at_once(work, folder):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=work, args=(folder, number)) for number in range(AT_ONCE)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * AT_ONCE


def test_boards_attached_at_once_are_all_remembered(tmp_path):
    at_once(attach, tmp_path)
    documents = BoardLibrary(tmp_path, pytest.fail).machines().values()
    targets = [target for document in documents for target in document.targets.values()]
    assert len(targets) == AT_ONCE * EACH
    assert sorted(target.number for target in targets) == list(range(AT_ONCE * EACH))


def test_rows_imported_at_once_are_all_kept(tmp_path):
    at_once(add, tmp_path)
    assert len((tmp_path / "imported.csv").read_text().splitlines()) == 1 + AT_ONCE * EACH


HOLDER = """
import sys, time
from pathlib import Path
from app.library.files import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_is_waited_for_in_bounds_and_ends_with_its_process(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_WAIT_S", 0.05)
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with running(argv, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        assert holder.stdout.readline().strip() == b"held"
        with pytest.raises(FileError, match=r"another program has written to it for 0\.05 s"), alone(tmp_path):
            pass
    with alone(tmp_path), alone(tmp_path):
        pass


def test_a_file_system_without_locks_is_named_and_written_to(tmp_path, monkeypatch):
    def unsupported(descriptor):
        raise OSError(files.locks.UNSUPPORTED[2], "No locks available")

    monkeypatch.setattr(files.locks, "take", unsupported)
    said = []
    with alone(tmp_path, said.append):
        pass
    assert len(said) == 1
    assert "no locks available" in said[0]
    write_whole(tmp_path / "a.json", b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_leftovers_of_dead_writers_go_and_those_of_living_ones_stay(tmp_path):
    names = [".attached.json.abcd_123", ".imported.csv.abcd_123", ".boards.abcd_123", ".boards.zzzzzzzz"]
    for name in names:
        (tmp_path / name).mkdir() if "boards" in name else (tmp_path / name).write_bytes(b"half")
    kept = [".attached.json.short", ".mine.txt.abcd_123", "imported.csv", ".young.json.abcd_123"]
    for name in kept:
        (tmp_path / name).write_bytes(b"mine")
    old_s = time.time() - 60
    for name in (*names, *kept[:-1]):
        os.utime(tmp_path / name, (old_s, old_s))
    with alone(tmp_path / ".boards.zzzzzzzz"):
        os.utime(tmp_path / ".boards.zzzzzzzz", (old_s, old_s))
        remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, ".boards.zzzzzzzz"])


def test_members_of_another_version_stay_in_a_machine_document(tmp_path):
    library = BoardLibrary(tmp_path, pytest.fail)
    record = {"median": 2e9, "q05": 1.9e9, "q95": 2.1e9}
    library.set_bandwidth("m", record)
    library.set_betas("m", {"avx2": {"median": 1.0, "q05": 0.9, "q95": 1.1}, "sse": record})
    path = tmp_path / "boards" / document_name("m")
    text = path.read_text().replace('"quiet_share"', '"later": [1], "quiet_share"')
    path.write_text(text.replace("{", '{"newer": {"a": 1},', 1).replace('"avx2": {', '"avx2": {"fit": 2,'))
    library.set_betas("m", {"avx2": {"median": 1.0, "q05": 0.8, "q95": 1.1}})
    library.set_bandwidth("m", {**record, "q95": 2.2e9})
    text = path.read_text()
    assert all(name in text for name in ('"newer"', '"later"', '"fit": 2'))
    assert '"sse"' not in text
    assert library.bandwidth("m")["q95"] == 2.2e9


def test_a_bandwidth_that_is_none_is_not_kept(tmp_path):
    library = BoardLibrary(tmp_path, pytest.fail)
    for value in (float("nan"), -1.0, 0.0, "fast", float("inf")):
        with pytest.raises(FileError, match="the bandwidth: "):
            library.set_bandwidth("m", {"median": value, "q05": value, "q95": value})
    assert library.bandwidth("m") is None
