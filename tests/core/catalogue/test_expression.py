"""Formulas given as text: their values, and what is refused instead of run."""

import math

import pytest

from core.catalogue import inputs
from core.catalogue.expression import Expression

VALUES = {"byte": 100.0, "bandwidth_byte_s": 50.0, "gamma": 0.5, "load_frac": 0.8}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("byte / bandwidth_byte_s * (1 + gamma * load_frac)", 2.8),
        ("max(byte, 3 * bandwidth_byte_s, 7)", 150.0),
        ("-2 ** 2 + +1", -3.0),
        ("ceil(sqrt(byte) + 0.1) - log(exp(1))", 10.0),
        ("1e3", 1000.0),
    ],
)
def test_arithmetic_has_its_value(text, value):
    made = Expression(text)
    assert made({name: VALUES[name] for name in made.names}) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "__import__('os').system('true')",
        "().__class__",
        "byte.real",
        "[1][0]",
        "lambda: 1",
        "byte if byte else 1",
        "'a' * 9",
        "True",
        "1j",
        "open(byte)",
        "max(1)",
        "sqrt(1, 2)",
        "min(1, key=2)",
        "byte := 1",
        "a & b",
        "(" * 200 + "1" + ")" * 200,
        "1+" * 200 + "1",
        "exp",
    ],
)
def test_what_is_no_arithmetic_is_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match="expected") as refused:
        Expression(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("max(1)", "max of 2 or more numbers"), ("ceil(1, 2)", "ceil of one number"), ("exp()", "exp of one number")],
)
def test_a_function_with_another_count_of_numbers_says_how_many_it_takes(text, wanted):
    with pytest.raises(ValueError, match=f"expected {wanted}$"):
        Expression(text)


@pytest.mark.parametrize("text", ["1 / a", "log(a)", "sqrt(a - 1)", "9 ** 9 ** 9", "exp(1e9)", "(a - 1) ** 0.5"])
def test_a_formula_without_a_finite_value_is_refused(text):
    made = Expression(text)
    with pytest.raises(ValueError, match="has no finite value"):
        made(dict.fromkeys(made.names, 0.0))


FILE = """
[formula]
loaded = "byte / bandwidth_byte_s * (1 + gamma * load_frac)"
[memory]
hbm = 800e9
ddr = 50e9
[default]
gamma = 0.5
load_frac = 0.8
[[operation]]
name = "a"
formula = "loaded"
byte = 100e6
memory = "ddr"
memory_frac = 0.9
[[operation]]
name = "b"
formula = "memory"
byte = 100e6
memory = "hbm"
"""


def read(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(text)
    return inputs.read_plan(path)


def test_a_file_registers_formulas_and_memories(tmp_path):
    a, b = read(tmp_path, FILE).operations
    assert (a.memory, b.memory) == ("ddr", "hbm")
    assert a.length_s == pytest.approx(2e-3 * 1.4)
    assert b.length_s == pytest.approx(0.125e-3)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gamma = 0.5", "gamma = 1.5", "gamma"),
        ('memory = "ddr"', 'memory = "l3"', "one of hbm, ddr"),
        ("loaded =", "roofline =", "another name than"),
        ("byte / bandwidth", "name / bandwidth", "another name of a number"),
        ("byte / bandwidth_byte_s", "open(byte)", "expected numbers"),
        ("load_frac = 0.8", "loaf_frac = 0.8", "default: loaf_frac"),
        ("hbm = 800e9", "hbm = -1", "memory"),
        ("byte / bandwidth_byte_s *", "-byte / bandwidth_byte_s *", "length_s"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(tmp_path, old, new, words):
    with pytest.raises(ValueError, match=words) as refused:
        read(tmp_path, FILE.replace(old, new, 1))
    assert str(refused.value).startswith("own.toml: ")
    assert "\n" not in str(refused.value)


def test_the_article_s_weight_may_be_at_its_ends_only(tmp_path):
    for gamma in (0.1, 0.9):
        (a, _) = read(tmp_path, FILE.replace("gamma = 0.5", f"gamma = {gamma}")).operations
        assert a.length_s == pytest.approx(2e-3 * (1 + 0.8 * gamma))
    assert math.isfinite(a.length_s)
