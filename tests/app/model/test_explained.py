import re
from html import unescape
from itertools import product

import pytest

from app.cli import explain as command
from app.cli import predict as prediction_command
from app.cli.shared.library import open_library
from app.cli.shared.verdict import verdict_of
from app.model.explained import evidence, explained
from app.model.store import Store
from app.text.explain import rich
from core.catalogue.load import load_catalogue
from core.predict.scenario import initial_posterior, predict
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
FORMATS = {
    "builtin": ("bf16", "int8", "int4"),
    "llamacpp_cpu": ("fp16", "q8_0", "q4_k_m"),
    "llamacpp_gpu": ("fp16", "q8_0", "q4_k_m"),
    "rkllm_npu": ("fp16", "w8a8", "w4a16"),
    "mlc_gpu": ("fp16", "q4f16"),
}
BOARDS = ("this", "raspberry_pi_5", "rk3588", "jetson_orin_nano_8gb_super", "jetson_agx_orin_64gb", "apple_m1")
MODELS = ("smollm2-135m", "llama-3.1-8b")
ALPHAS = (0.0, 0.2, 0.9)
LIMITS = (
    {},
    {"latency_s": 0.02, "power_w": 5.0, "accuracy_frac": 0.97},
    {"request_s": 10.0, "answer_tokens": 64.0},
)


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))


def on_the_dashboard(point, limits):
    store = Store(CATALOGUE, point)
    for path, name in (
        ("latency", "latency_s"),
        ("power", "power_w"),
        ("accuracy", "accuracy_frac"),
        ("request", "request_s"),
        ("answer", "answer_tokens"),
    ):
        store.set(f"limits.{path}", limits.get(name))
    return unescape(re.sub("</?b>", "", rich(explained(store)))).replace("\u00a0", " ")


@pytest.mark.parametrize("board", BOARDS)
def test_terminal_and_dashboard_say_the_same_of_the_same_point(qapp, board):
    n, firsts, library = 0, set(), open_library()
    for runtime, model, alpha, limits in product(FORMATS, MODELS, ALPHAS, LIMITS):
        for weights in FORMATS[runtime]:
            point = OperatingPoint(
                board=board, runtime=runtime, model=model, weights=weights, alpha=alpha, context_tokens=2048.0
            )
            known = library.posterior(point, CATALOGUE) or initial_posterior(CATALOGUE.resolve(point), CATALOGUE)
            said = command.document(point, CATALOGUE, known, limits, library)["limits"]
            assert on_the_dashboard(point, limits) == said
            firsts.add(said.partition(" ")[0])
            prediction = predict(point, CATALOGUE, known)
            if not limits:
                verdict = verdict_of(point, CATALOGUE, known, library)
                assert prediction_command.document(point, prediction, {}, verdict)["limits"] == said
            if any("does not fit in the memory" in text for text in prediction.outside):
                assert "does not fit in the memory" in said.partition(". ")[0]
            n += 1
    assert n == 14 * 2 * 3 * 3
    assert len(firsts) >= 3  # the points of the grid are not all alike


def test_evidence_names_provenance_and_interval(qapp):
    store = Store(CATALOGUE, OperatingPoint(board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8"))
    assert evidence(store).startswith("calibrated from ")
    assert "90 % interval" in evidence(store)
    assert evidence(Store(CATALOGUE)).startswith("predicted, 90 % interval ")
