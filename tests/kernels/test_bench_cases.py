"""The cases of the bench on small shapes: each agrees with its reference and can be called again and again."""

import pytest
import torch

from kernels import bench_attention, bench_passes
from kernels.policies import n_kept


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(bench_attention, "SHAPES", ((2, 2, 64, 400), (1, 3, 16, 150)))
    monkeypatch.setattr(bench_attention, "QUICK_SHAPES", ((2, 2, 64, 400),))
    monkeypatch.setattr(bench_passes, "CACHE", (2, 256, 128))
    monkeypatch.setattr(bench_passes, "N_ACTIVATIONS", 1 << 16)
    for module in (bench_attention, bench_passes):
        monkeypatch.setattr(module, "n_copies", lambda _: 2)
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("subject", [bench_attention, bench_passes])
@pytest.mark.parametrize("quick", [True, False])
def test_cases_check_themselves_and_run(subject, quick):
    found = list(subject.cases(quick, "cpu"))
    for case in found:
        case.check()
        for _ in range(3):
            case.run()
            if case.baseline:
                case.baseline()
        case.check()  # what runs in place has not changed what is compared
        assert case.floor_byte > 0
    keys = [(case.name, case.variant, case.shape, case.dtype) for case in found]
    assert len(set(keys)) == len(keys)
    assert any(case.trap for case in found)


def test_goals_are_speedups_over_what_is_really_read():
    found = {case.name: case for case in bench_attention.cases(True, "cpu")}
    kept = n_kept(400, 0.6)
    assert found["pruned attention, compacted"].goal_speedup == pytest.approx(0.95 * 400 / kept)
    pages = 2 * 64 + 16  # of 6 full ones, and the one being filled
    assert found["pruned attention, pages in place"].goal_speedup == pytest.approx(0.75 * 400 / pages)
    assert found["pruned attention, mask"].trap


def test_a_wrong_kernel_is_found_out(monkeypatch):
    case = next(bench_attention.cases(True, "cpu"))
    monkeypatch.setattr(bench_attention, "_attend", lambda held: torch.zeros(4, 64))
    with pytest.raises(ValueError, match="largest error"):
        case.check()
