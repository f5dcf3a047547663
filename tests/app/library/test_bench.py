"""The bench of a machine's kernels, kept in its document."""

import pytest

from app.library.board_library import BoardLibrary
from app.library.machine import machine_key
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

ROW = {"name": "linear int8", "variant": "native", "dtype": "int8", "shape": [4096, 4096], "read_share": 0.9}
ABSENT = {**ROW, "name": "linear int4", "dtype": "int4", "read_share": {"absent": "not quiet enough"}}


HELLO = {"board": {"cpu": "A76"}}


@pytest.fixture
def library(tmp_path):
    return BoardLibrary(tmp_path, pytest.fail)


def decoder(catalogue, board="this"):
    return catalogue.resolve(OperatingPoint(board=board, runtime="builtin")).runtime


def test_what_was_benched_is_what_the_decoder_starts_from_on_this_machine_and_on_no_other_board(library):
    catalogue = load_catalogue()
    assert decoder(library.catalogue(HELLO)) == decoder(catalogue)
    library.set_bench(machine_key(HELLO), [ROW, ABSENT])
    known = library.catalogue(HELLO)
    assert decoder(known).priors["eta"].median == pytest.approx(0.9)
    assert decoder(known, "raspberry_pi_5") == decoder(catalogue, "raspberry_pi_5")
    assert decoder(library.catalogue({"board": {"cpu": "another"}})) == decoder(catalogue)


def test_a_kernel_benched_again_replaces_its_rows_only(library):
    library.set_bench("m", [ROW, {**ROW, "name": "linear fp32", "dtype": "fp32"}])
    library.set_bench("m", [{**ROW, "read_share": 0.5}])
    kept = library.machines()["m"].bench
    assert {(row.name, row.read_share) for row in kept} == {("linear fp32", 0.9), ("linear int8", 0.5)}
