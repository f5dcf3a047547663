"""The file that keeps the bench of a machine's kernels."""

import json

import pytest

from app.library.bench import bench_file, benched, save_bench
from app.library.files import FileError
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

ROW = {"name": "linear int8", "variant": "native", "dtype": "int8", "shape": [4096, 4096], "read_share": 0.9}
ABSENT = {**ROW, "name": "linear int4", "dtype": "int4", "read_share": {"absent": "not quiet enough"}}


@pytest.fixture(autouse=True)
def _data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))


def decoder(catalogue, board="this"):
    return catalogue.resolve(OperatingPoint(board=board, runtime="builtin")).runtime


def test_what_was_benched_is_what_the_decoder_starts_from_on_this_machine_and_on_no_other_board():
    catalogue = load_catalogue()
    assert decoder(benched(catalogue, "m")) == decoder(catalogue)
    save_bench(bench_file(), "m", [ROW, ABSENT])
    known = benched(catalogue, "m")
    assert decoder(known).eta.median == pytest.approx(0.9)
    assert decoder(known, "raspberry_pi_5") == decoder(catalogue, "raspberry_pi_5")
    assert decoder(benched(catalogue, "another")) == decoder(catalogue)


def test_a_kernel_benched_again_replaces_its_rows_only():
    save_bench(bench_file(), "m", [ROW, {**ROW, "name": "linear fp32", "dtype": "fp32"}])
    save_bench(bench_file(), "m", [{**ROW, "read_share": 0.5}])
    kept = json.loads(bench_file().read_text(encoding="utf-8"))["m"]
    assert {(row["name"], row["read_share"]) for row in kept} == {("linear fp32", 0.9), ("linear int8", 0.5)}


def test_nonsense_is_named_and_put_aside_by_the_next_bench():
    bench_file().write_text("nonsense", encoding="utf-8")
    with pytest.raises(FileError, match="`trilemma bench kernels` measures it again"):
        benched(load_catalogue(), "m")
    save_bench(bench_file(), "m", [ROW])
    bench_file().write_text(json.dumps({"m": [{"name": 1}]}), encoding="utf-8")
    with pytest.raises(FileError, match=r"bench.json: m: "):
        benched(load_catalogue(), "m")
