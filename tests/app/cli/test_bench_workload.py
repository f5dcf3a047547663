"""`bench beta` and `bench alpha`: the sets of a processor, the arithmetic, a worker that is really limited."""

from functools import partial

import pytest

from app.agent import board
from app.cli.bench import alpha, beta
from app.cli.bench.instruction_sets import instruction_sets
from app.cli.shared.output import UserError
from app.client.blocking_session import AttachedBoard
from app.library.board_library import BoardLibrary
from tests.tiny_gguf import write_tiny_gguf

ZEN3 = "processor: 0\nflags : fpu sse4_2 avx avx2 fma f16c\n"
ICE_LAKE = "flags\t\t: avx2 fma avx512f avx512dq avx512bw avx512vl avx512_vnni\n"


@pytest.fixture(autouse=True)
def _data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "names"),
    [
        ("x86_64", ZEN3, ["DEFAULT", "AVX2"]),
        ("x86_64", ICE_LAKE, ["DEFAULT", "AVX2", "AVX512"]),
        ("x86_64", "", ["DEFAULT"]),
        ("aarch64", "Features : fp asimd\n", ["DEFAULT"]),
        ("aarch64", "Features : fp asimd sve i8mm\n", ["DEFAULT", "SVE256"]),
    ],
)
def test_a_set_is_offered_where_the_processor_has_its_flags(machine, cpuinfo, names):
    assert [each.name for each in instruction_sets(machine, cpuinfo)] == names


@pytest.mark.skipif(bool(board.why_no_measuring()), reason="extra local missing")
def test_a_worker_is_limited_to_the_set_it_was_told(tmp_path):
    file = write_tiny_gguf(tmp_path / "tiny.gguf")
    least = instruction_sets()[0]
    point = {"weights": "fp32", "kv": "fp32", "context_tokens": 64, "alpha": 0.0}
    point |= {"policy": "sinks_recent", "layout": "compacted"}
    with AttachedBoard(partial(beta._limited, least)) as limited:
        body = limited.measure(point, ["decode"], lambda done, text: None, model_file=str(file))
    assert body["conditions"]["instruction_set"] == least.name


def test_beta_is_the_ratio_to_the_machines_own_set_round_by_round(monkeypatch, tmp_path):
    times = {}
    for weights in ("int8", "int4"):
        times["DEFAULT", weights, "ttft_s"] = [4.0, 8.0, 4.0]  # the second round was slow for both
        times["AVX2", weights, "ttft_s"] = [1.0, 2.0, 1.0]
        times["DEFAULT", weights, "decode_s"] = [0.03, 0.03, 0.03]
        times["AVX2", weights, "decode_s"] = [0.02, 0.02, 0.02]
    monkeypatch.setattr(beta, "instruction_sets", lambda: instruction_sets("x86_64", ZEN3))
    monkeypatch.setattr(beta, "_measured", lambda sets, rounds, weights: (times, "this machine"))
    found = beta.measure_beta(weights=("int8", "int4"))
    assert found["beta"]["DEFAULT"]["median"] == found["beta"]["DEFAULT"]["q95"] == 0.25
    assert found["beta"]["AVX2"]["median"] == 1.0
    decode = [row["beta"]["median"] for row in found["rows"] if row["output"] == "decode_s"]
    assert decode == pytest.approx([2 / 3, 2 / 3, 1, 1])
    assert found["published"]["factors"]["MLU370"] == 2.11
    library = BoardLibrary(tmp_path, pytest.fail)
    assert library.betas("this machine") == {"DEFAULT": 0.25, "AVX2": 1.0}
    assert library.betas("another") == {}


def test_alpha_eff_is_what_is_saved_of_the_time_that_the_cache_takes(monkeypatch):
    def measured(points, rounds, journal, fresh):
        short, *_ = points
        runs, slower = [], 1.0
        for point in points:
            if point == short:
                seconds = 0.0103  # 10 ms without a cache and 20 ms for 4096 tokens, nearly
            else:
                slower *= 1.002 if runs[1:] else 1.0  # a machine that becomes slower all the time
                saved = 0.0 if point.layout == "masked" else float(point.alpha)
                seconds = (0.030 - 0.020 * saved) * slower
            runs.append((point, seconds))
        return runs

    monkeypatch.setattr(alpha, "_measured", measured)
    found = alpha.measure_alpha()
    assert found["cache_s"] == pytest.approx(0.020, rel=0.01)
    for row in found["rows"]:
        expected = 0.0 if row["layout"] == "masked" else row["alpha"]
        assert row["alpha_eff"]["median"] == pytest.approx(expected, rel=0.02, abs=1e-3)
        assert row["model"] == pytest.approx(expected)
        assert row["whole"] == pytest.approx(expected * 2 / 3, rel=0.02, abs=1e-3)


def test_a_machine_too_busy_for_alpha_is_told_so(monkeypatch):
    monkeypatch.setattr(alpha, "_measured", lambda points, *_: [(point, 0.01) for point in points])
    with pytest.raises(UserError, match="expected the longer one to take longer"):
        alpha.measure_alpha()
