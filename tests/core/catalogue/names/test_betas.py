"""Published factors of instruction sets by the names of boards and instruction sets."""

import pytest

from core.articles.as_printed.article_a import BETA
from core.catalogue.load import load_catalogue
from core.catalogue.names.betas import published_beta, published_betas
from core.catalogue.names.boards import boards_called

BOARDS = load_catalogue().boards


@pytest.mark.parametrize(
    ("name", "beta"),
    [
        *((name, 2.11) for name in ("MLU370", "MLU370-X8", "Neuware", "neuware 5.2")),
        *((name, 1.83) for name in ("CANN", "Ascend 910B", "910B")),
        *((name, 1.42) for name in ("J5", "Horizon J5", "BPU")),
        ("SVE2", 1.0),
        *((name, None) for name in ("2", "1.5", "x", "e5", "", "tea", "Ascend 310B", "RK3588")),
    ],
)
def test_a_name_means_one_factor_or_none(name, beta):
    assert published_beta(name) == beta


def test_the_boards_have_the_printed_factors():
    assert sorted(one.beta for one in published_betas(BOARDS)) == sorted(BETA.values())


@pytest.mark.parametrize(
    ("names", "key"),
    [
        (("Horizon J5", "J5", "Journey 5", "horizon_j5"), "horizon_j5"),
        (("MLU370", "MLU370-X8", "Cambricon MLU370"), "mlu370_x8"),
        (("Ascend 910B", "Ascend910B", "910B"), "ascend_910b"),
        (("Ascend 310B", "310B", "Atlas 200I DK A2"), "ascend_310b"),
        (("Hi3559A", "Hi3559AV100", "Hi3559A V100"), "hi3559a"),
        (("Versal AI Core", "VCK190", "VC1902", "Versal"), "versal_vck190"),
        (("A100", "NVIDIA A100", "A100 80GB"), "a100_pcie_80gb"),
        (("RK3576",), "rk3576"),
    ],
)
def test_the_boards_of_the_articles_are_found_as_people_write_them(names, key):
    for name in names:
        assert boards_called(name, BOARDS) == [key], name
