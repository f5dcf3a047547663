from importlib.resources import files

import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.runtimes import check_formats, read_runtime
from core.catalogue.toml_files import parse
from core.spec import PARAMETERS

QNN = files("resources").joinpath("runtimes", "qnn_npu.toml").read_text("utf-8")
CATALOGUE = load_catalogue()


def runtime(text: str):
    return read_runtime("a_npu", "runtimes/a_npu.toml", parse("runtimes/a_npu.toml", text))


def test_what_is_true_of_a_runtime_is_read_from_its_file():
    made = runtime(QNN)
    assert (made.unit, made.on_cpu, made.possible_classes) == ("npu", False, ("npu",))
    assert (made.usual_kv, made.smaller_weights, made.called) == ("int8", ("w8a8", "w4a16"), ("qnn", "genie", "qairt"))
    assert made.ratios.keys() == {"eta.w4"}
    for name in ("usual_kv", "smaller_weights", "called", "format_eta.w4", "graph_tokens"):
        assert made.sources[name]


def test_a_runtime_that_was_not_learned_yet_has_the_priors_of_any():
    head, _, rest = QNN.partition("[t_layer_s]")
    made = runtime(head + rest[rest.index("[t_token_s]") :])
    usual = next(parameter for parameter in PARAMETERS if parameter.name == "t_layer_s")
    assert made.priors["t_layer_s"] == usual.prior
    assert made.priors["t_layer_s"].log_sd > runtime(QNN).priors["t_layer_s"].log_sd
    assert made.sources["t_layer_s"].startswith("[prior]")
    assert made.priors.keys() == runtime(QNN).priors.keys()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unit = "npu"', 'unit = "dsp"', "unit: got 'dsp', expected one of cpu, gpu, npu"),
        ('unit = "npu"\n', "", "unit: got nothing, expected a text"),
        ('"genie"', '"gen(ie"', r"called: got 'gen\(ie', expected a regular expression"),
        ('unit = "npu"', 'unit = "npu"\nclasses = ["dsp"]', "classes: got 'dsp', expected one of cpu, gpu, npu"),
        ('unit = "npu"', 'unit = "npu"\nclasses = ["npu"]', "classes: got no source"),
        ("[eta]\nmedian = 0.8199", "[eta]\nmedian = 8.0", r"eta: median: got 8.0, expected a number from 0.01 to 1.1"),
        ("[model_factor]", "[model_factor]\nx = [1.0]", r"model_factor: x: got \[1.0\], expected a list of 2 numbers"),
        (
            "[model_factor]",
            "[model_factor]\nx = [1.0, 30]",
            "model_factor: x: got 30, expected a list of 2 numbers",
        ),
        ('knobs = ["weights"', 'knobs = ["speed"', "knobs: got 'speed', expected one of alpha, beta"),
        ("[kappa]", "[kapa]", "kapa: got .*, expected no such key"),
        ("[format_eta.w4]", "[format_rho.w4]", "format_rho: got .*, expected no such key"),
    ],
)
def test_a_mistake_is_refused_with_its_key(old, new, message):
    assert old in QNN
    with pytest.raises(ValueError, match=message):
        runtime(QNN.replace(old, new))


def test_formats_that_a_runtime_names_are_in_the_catalogue():
    weights, kv = CATALOGUE.weight_formats.keys(), CATALOGUE.kv_formats.keys()
    check_formats(runtime(QNN), weights, kv)
    for old, message in (('"w4a16"]', "smaller_weights: got 'no'"), ('usual_kv = "int8"', "usual_kv: got 'no'")):
        new = '"no"]' if old.endswith("]") else 'usual_kv = "no"'
        with pytest.raises(ValueError, match=message):
            check_formats(runtime(QNN.replace(old, new)), weights, kv)
