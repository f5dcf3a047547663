"""Files are written whole or not at all, also several of them together."""

import os

import pytest

from app.library.files import FileError, read_whole, write_all, write_whole


def tree(folder):
    return {str(path.relative_to(folder)): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def test_several_files_are_replaced_together(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"before")
    write_all(tmp_path, {"a.toml": b"1", "new/b.json": b"2"})
    assert tree(tmp_path) == {"a.toml": b"1", "new": False, "new/b.json": b"2"}


@pytest.mark.parametrize("names", [("a.toml", "new/b.json", "full"), ("full", "new/b.json"), ("new/deep/b", "full")])
def test_no_file_is_changed_where_one_cannot_be(tmp_path, names):
    (tmp_path / "a.toml").write_bytes(b"before")
    (tmp_path / "full").mkdir()
    before = tree(tmp_path)
    with pytest.raises(FileError, match="expected a file, it is a folder; nothing in it was changed"):
        write_all(tmp_path, dict.fromkeys(names, b"after"))
    assert tree(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_a_pipe_is_no_document_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="expected a file, it is a device or a pipe"):
        read_whole(tmp_path / "pipe")
    with pytest.raises(FileError, match="expected a file, it is a device or a pipe"):
        write_whole(tmp_path / "pipe", b"")
