from dataclasses import fields

import pytest

from core.catalogue.load import load_catalogue
from core.physics.latency import LatencyParameters
from core.spec import PARAMETER_NAMES, PARAMETERS

RUNTIMES = load_catalogue().runtimes.values()


def test_the_equations_have_a_field_for_each():
    assert tuple(field.name for field in fields(LatencyParameters)) == PARAMETER_NAMES


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda one: one.name)
def test_a_runtime_has_a_prior_of_each_within_its_range(parameter):
    assert parameter.low < parameter.median < parameter.high
    for runtime in RUNTIMES:
        assert parameter.low <= runtime.priors[parameter.name].median <= parameter.high
        assert runtime.sources[parameter.name]


def test_one_follows_another_whose_formats_matter():
    by_name = {parameter.name: parameter for parameter in PARAMETERS}
    followed = [by_name[parameter.follows] for parameter in PARAMETERS if parameter.follows]
    assert followed
    assert all(parameter.ratio is not None for parameter in followed)


def test_shown_once_for_each_format_only_where_formats_matter():
    for parameter in PARAMETERS:
        shown = "{format}" in parameter.meaning
        assert shown == ("{format}" in parameter.label)
        assert not shown or parameter.ratio is not None
