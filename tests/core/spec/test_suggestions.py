from core.spec.suggestions import MOST_NAMED, suggestion

MANY = [f"jetson_{i}" for i in range(20)] + ["raspberry_pi_4", "raspberry_pi_5"]


def test_few_names_are_all_told():
    assert suggestion("layout", "x", ["b", "a"]) == "expected one of a, b"
    assert len(MANY) > MOST_NAMED


def test_of_many_the_nearest_and_where_all_are():
    said = suggestion("board", "Raspberry_Pi5", MANY)
    assert said.startswith(f"expected one of {len(MANY)}, such as raspberry_pi_")
    assert said.endswith("; see trilemma boards")
    assert "jetson_1" not in said.partition("raspberry_pi_5")[0]


def test_nothing_near_still_names_some():
    said = suggestion("runtime", "@@@@", MANY)
    assert "jetson_0" in said
    assert "see trilemma" not in said
