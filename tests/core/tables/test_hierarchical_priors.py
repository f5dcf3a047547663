from collections import Counter
from dataclasses import replace
from importlib.resources import files
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.spec import PARAMETER_NAMES
from core.tables.as_points import ComparedRow, compare
from core.tables.hierarchical_priors import (
    CLASS_SD,
    COMPUTE_SHARE,
    LEAST_BOARD_SD,
    PRIOR,
    RUNTIME_SD,
    Learner,
    Normal,
    _predictive,
    groups_of,
    points_of,
    subsampled,
)
from core.tables.rows import PublishedRow, read_table

CATALOGUE = replace(load_catalogue(), board_posteriors={})
TABLE = files("resources").joinpath("measurements", "llm_decode.csv")


def synthetic(n_boards, truth, seed=0):
    """Rows of boards whose parameters scatter about `truth` = (eta, t_layer, t_token), of models without unpacking."""
    rng = np.random.default_rng(seed)
    rows = []
    for b in range(n_boards):
        bandwidth = float(rng.uniform(20e9, 200e9))
        eta, t_layer = truth[0] * np.exp(rng.normal(0, 0.05)), truth[1] * np.exp(rng.normal(0, 0.1))
        for key in ("qwen2.5-0.5b", "tinyllama-1.1b", "gemma-2b", "llama-3.2-3b", "llama-2-7b", "llama-3-8b"):
            shape = CATALOGUE.models[key]
            byte = shape.body_params + shape.head_params
            decode_s = byte / (eta * bandwidth) + shape.n_layers * t_layer + shape.vocab_size / 49152 * truth[2]
            decode_s *= float(np.exp(rng.normal(0, 0.02)))
            text = dict.fromkeys(("power_rail", "power_mode", "moe_or_sparse", "kv_quant", "trust", "board"), "")
            text |= {"board_key": f"board{b}", "compute": "npu", "runtime": "rkllm", "model": key, "model_key": key}
            number = {
                "decode_ms_per_tok": decode_s,
                "weight_stream_bytes": byte,
                "params_streamed_b": byte,
                "dram_bandwidth_gb_s": bandwidth,
                "context_tokens": 1.0,
            }
            rows.append(PublishedRow(len(rows) + 2, {**text, "quant": "w8a8"}, number))
    return compare(rows, CATALOGUE)


def test_what_the_boards_have_in_common_is_recovered():
    compared = synthetic(12, (0.70, 4e-4, 8e-4))
    learned = Learner(compared.rows, compared.catalogue).learn()
    found = dict(zip(PARAMETER_NAMES, np.exp(learned.runtimes["rkllm_npu"].mean), strict=True))
    assert found["eta"] == pytest.approx(0.70, rel=0.06)
    assert found["t_layer_s"] == pytest.approx(4e-4, rel=0.15)
    assert found["t_token_s"] == pytest.approx(8e-4, rel=0.25)
    assert found["kappa"] == pytest.approx(np.exp(PRIOR[1]), rel=0.05)  # a cache of one token teaches nothing
    runtime = learned.applied(CATALOGUE.runtimes["rkllm_npu"])
    assert runtime.priors["eta"].median == pytest.approx(found["eta"])
    other = learned.applied(CATALOGUE.runtimes["other_npu"])
    assert found["eta"] < other.priors["eta"].median < np.exp(PRIOR[0])  # a runtime without rows stays between
    elsewhere = learned.applied(CATALOGUE.runtimes["llamacpp_gpu"])
    assert elsewhere.priors["eta"].median == pytest.approx(np.exp(PRIOR[0]))


def test_what_few_boards_say_is_less_sure():
    eta = PARAMETER_NAMES.index("eta")

    def expected_log_sd(n_boards: int, runtime: str) -> float:
        compared = synthetic(n_boards, (0.8, 2e-4, 4e-4))
        return (
            Learner(compared.rows, compared.catalogue).learn().applied(CATALOGUE.runtimes[runtime]).priors["eta"].log_sd
        )

    few, many, another = (expected_log_sd(*of) for of in ((1, "rkllm_npu"), (12, "rkllm_npu"), (12, "qnn_npu")))
    assert LEAST_BOARD_SD[eta] < many < 1.15 * LEAST_BOARD_SD[eta] < few < another
    assert another > np.hypot(LEAST_BOARD_SD[eta], RUNTIME_SD[eta])


def test_expected_boards_are_those_of_the_gaussian_tree():
    rng = np.random.default_rng(3)
    board_sd = rng.uniform(0.1, 0.5, len(PARAMETER_NAMES))
    n_boards = {"rkllm_npu": 3, "qnn_npu": 1}
    groups = [
        SimpleNamespace(runtime=key, variance=np.zeros(len(PARAMETER_NAMES)))
        for key, n in n_boards.items()
        for _ in range(n)
    ]
    of_runtime, of_class = _predictive(
        groups, dict.fromkeys(n_boards, PRIOR), {"npu": PRIOR}, board_sd, dict.fromkeys(n_boards, "npu")
    )
    for p, sd in enumerate(board_sd):
        # a new board of rkllm, one of qnn and one of a runtime without rows, then the four that were seen
        runtime = np.array([0, 1, 2, 0, 0, 0, 1])
        cov = CLASS_SD[p] ** 2 + RUNTIME_SD[p] ** 2 * (runtime[:, None] == runtime) + sd**2 * np.eye(7)
        posterior = cov[:3, :3] - cov[:3, 3:] @ np.linalg.solve(cov[3:, 3:], cov[3:, :3])
        found = [of_runtime["rkllm_npu"].sd[p], of_runtime["qnn_npu"].sd[p], of_class["npu"].sd[p]]
        np.testing.assert_allclose(found, np.sqrt(np.diag(posterior)), rtol=1e-9)


def test_unknown_runtime_of_a_gpu_may_be_of_either_class():
    assert CATALOGUE.runtimes["other_gpu"].possible_classes == ("gpu", "compiled_gpu")
    assert CATALOGUE.runtimes["llamacpp_gpu"].possible_classes == ("gpu",)
    assert CATALOGUE.runtimes["other_npu"].possible_classes == ("npu",)
    compared = synthetic(3, (0.8, 2e-4, 4e-4))
    learned = Learner(compared.rows, compared.catalogue).learn()
    unknown = replace(CATALOGUE.runtimes["other_gpu"], key="other-mnn_gpu")
    means = [
        np.log(learned.applied(CATALOGUE.runtimes[key]).priors["rho"].median) for key in ("llamacpp_gpu", "mlc_gpu")
    ]
    assert np.log(learned.applied(unknown).priors["rho"].median) == pytest.approx(np.mean(means))
    either = Normal.of_either([Normal(np.array([0.0, 1.0]), np.ones(2)), Normal(np.array([2.0, 1.0]), np.ones(2))])
    np.testing.assert_allclose(either.mean, [1.0, 1.0])
    np.testing.assert_allclose(either.sd, [np.sqrt(2.0), 1.0])


def test_board_left_out_teaches_nothing():
    compared = synthetic(3, (0.8, 2e-4, 4e-4))
    slow = [
        replace(row, row=replace(row.row, number={**row.row.number, "decode_ms_per_tok": 3 * row.row.decode_s}))
        if row.group[0] == "board1"
        else row
        for row in compared.rows
    ]
    whole, spoiled = (Learner(rows, compared.catalogue) for rows in (compared.rows, slow))
    np.testing.assert_allclose(
        whole.learn({"board1"}).runtimes["rkllm_npu"].mean,
        spoiled.learn({"board1"}).runtimes["rkllm_npu"].mean,
        rtol=1e-3,
    )
    change = spoiled.learn().runtimes["rkllm_npu"].mean - whole.learn().runtimes["rkllm_npu"].mean
    assert change[PARAMETER_NAMES.index("eta")] < -0.02
    assert change[PARAMETER_NAMES.index("t_layer_s")] > 0.02
    assert whole.boards == {"board0", "board1", "board2"}


def test_shipped_priors_are_those_of_the_shipped_table():
    compared = compare(read_table(str(TABLE)).rows, CATALOGUE)
    learned = Learner(compared.rows, compared.catalogue).learn()
    for key, runtime in CATALOGUE.runtimes.items():
        if key != "builtin":
            fresh = learned.applied(runtime)
            for name in PARAMETER_NAMES:
                assert runtime.priors[name].median == pytest.approx(fresh.priors[name].median, rel=1e-3), (key, name)
            assert runtime.size_log_sd == fresh.size_log_sd
            for name in ("model_log_sd", "prompt_log_sd"):
                assert getattr(runtime, name) == pytest.approx(getattr(fresh, name), rel=1e-2), (key, name)
            assert runtime.model_factor.keys() == fresh.model_factor.keys()
            assert "trilemma data learn llm_decode.csv" in runtime.sources["eta"]


def test_share_of_a_rate_that_no_source_states_teaches_nothing_of_other_boards():
    compared = synthetic(4, (0.7, 4e-4, 4e-4))
    rows = [
        replace(row, row=replace(row.row, number={**row.row.number, "ttft_ms": 0.01, "prompt_tokens": 128.0}))
        for row in compared.rows
    ]
    learned = Learner(rows, compared.catalogue).learn()
    share = np.exp(learned.runtimes["rkllm_npu"].mean[PARAMETER_NAMES.index("eta_compute")])
    assert share == pytest.approx(COMPUTE_SHARE["npu"], rel=0.05)


def test_classes_and_thinning():
    classes = {key: runtime.possible_classes[0] for key, runtime in CATALOGUE.runtimes.items()}
    assert classes["mlc_gpu"] == classes["vllm_gpu"] == "compiled_gpu"
    assert classes["llamacpp_gpu"] == classes["other_gpu"] == "gpu"
    assert classes["rkllm_npu"] == "npu"
    compared = synthetic(2, (0.8, 2e-4, 4e-4))
    assert [len(rows) for rows in groups_of(compared.rows).values()] == [6, 6]
    assert len(subsampled(compared.rows, 6)) == 6
    assert len(points_of(compared.rows)) == len(compared.rows)


def test_thinning_fills_up_and_keeps_every_sort_of_time():
    first, *_ = synthetic(1, (0.8, 2e-4, 4e-4)).rows

    def rows(model: str, n: int, *, prompts: int = 0) -> list[ComparedRow]:
        """Return n rows of a model; every `prompts`-th has a time to first token too."""
        decode = replace(first.decode, model=model)
        timed = replace(first.row, number={**first.row.number, "ttft_ms": 0.1})
        return [
            replace(first, decode=decode, row=timed if prompts and i % prompts == 0 else first.row) for i in range(n)
        ]

    few = [row for i in range(21) for row in rows(f"m{i}", 3 if i % 2 else 1)]
    assert len(few) == 41
    kept = [id(row) for row in subsampled(few, 40)]
    assert len(kept) == 31  # two of the ten models that have three
    assert [id(row) in kept for row in few[1:4]] == [True, False, True]
    assert subsampled(few, 41) == few
    assert len(subsampled(few, 5)) == 21  # one of each at least

    many = rows("large", 100, prompts=2) + rows("small", 100, prompts=2)
    kept = subsampled(many, 40)
    assert Counter((row.decode.model, row.row.ttft_s is None) for row in kept) == dict.fromkeys(
        product(("large", "small"), (False, True)), 10
    )


def test_table_without_usable_rows_leaves_the_prior():
    compared = synthetic(1, (0.8, 2e-4, 4e-4))
    learned = Learner(compared.rows, compared.catalogue).learn({"board0"})
    assert learned.n_groups == 0
    assert learned.applied(CATALOGUE.runtimes["rkllm_npu"]).priors["eta"].median == pytest.approx(np.exp(PRIOR[0]))
