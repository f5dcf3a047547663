import math

import pytest

from app.library.bandwidth import disturbed, read_record, with_bandwidth
from app.library.board_library import BoardLibrary
from app.library.calibration import measured_points
from app.library.measurements import Measurement
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

RECORD = {"median": 30e9, "q05": 28e9, "q95": 31e9, "quiet_share": 1.0}
BUSY = {"median": 6e9, "q05": 3e9, "q95": 9e9, "quiet_share": 0.2}


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        ([BUSY], 6e9),
        ([BUSY, RECORD], 30e9),
        ([RECORD, BUSY], 30e9),  # other work only ever takes bandwidth away
        ([BUSY, {**BUSY, "median": 8e9}], 8e9),
        ([{**BUSY, "median": 8e9}, BUSY], 8e9),
        (
            [RECORD, {**RECORD, "median": 29e9}],
            29e9,
        ),  # a quiet one counts, as after a change of clocks
    ],
)
def test_a_bandwidth_that_others_slowed_does_not_replace_a_faster_one(tmp_path, records, kept):
    library = BoardLibrary(tmp_path, pytest.fail)
    for record in records:
        library.set_bandwidth("one", record)
    assert library.bandwidth("one")["median"] == kept


def test_a_bandwidth_of_a_body_knows_how_quiet_it_was():
    assert read_record({"read_byte_s": {"absent": "no clock"}}) is None
    body = {"read_byte_s": {k: RECORD[k] for k in ("median", "q05", "q95")}, "conditions": {"quiet_share": 0.4}}
    assert read_record(body) == {**RECORD, "quiet_share": 0.4}
    assert not disturbed(read_record(body))  # interrupted, as where the threads fill all cores, and yet steady
    assert disturbed(BUSY)
    assert not disturbed({**BUSY, "quiet_share": 1.0})
    assert not disturbed({"median": 1.0, "q05": 1.0, "q95": 9.0})  # from a file of an earlier version


def test_replaces_the_prior_of_a_board():
    board = with_bandwidth(load_catalogue().boards["this"], RECORD)
    assert next(iter(board.power_modes.values())).bandwidth_byte_s == 30e9
    assert board.bandwidth_log_sd == pytest.approx(math.log(31 / 28) / 3.289707)
    assert board.sources["default.bandwidth_byte_s"].startswith("measured")


def test_says_that_it_was_disturbed():
    board = with_bandwidth(load_catalogue().boards["this"], BUSY)
    assert board.sources["default.bandwidth_byte_s"].endswith("while other programs ran")


def test_leaves_the_rest_of_the_board():
    board = load_catalogue().boards["this"]
    after = with_bandwidth(board, RECORD)
    assert (after.key, after.system_energy_j_byte) == (board.key, board.system_energy_j_byte)
    assert after.power_modes["default"].compute_op_s == board.power_modes["default"].compute_op_s


def test_runs_at_reduced_bandwidth_do_not_teach_the_board_as_it_is():
    catalogue = load_catalogue()
    record = {"median": 0.02, "q05": 0.02, "q95": 0.02, "n": 30, "provenance": "measured"}
    limited = {"decode_s": record, "conditions": {"bandwidth_how": "1 thread, read 9.0 GB/s"}}
    point = OperatingPoint()
    found = [Measurement(point, {"decode_s": record}, "", "m"), Measurement(point, limited, "", "m")]
    assert len(measured_points(found, catalogue)) == 1
    assert measured_points(found[1:], catalogue) == []
