"""Power and throttling of a Raspberry Pi."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.sensors import pi
from tests.app.agent.sensors.parsed import SENSORS, unknown, values

micro = st.integers(0, 5_000_000).map(lambda n: n / 1e6)


@given(
    st.dictionaries(st.sampled_from(["3V7_WL_SW", "VDD_CORE", "1V8_SYS", "HDMI"]), st.tuples(micro, micro), min_size=1)
)
def test_power_of_any_rails_of_the_pi_comes_back(rails):
    lines = [f"  {name}_A current({i})={ampere:.8f}A" for i, (name, (ampere, _)) in enumerate(rails.items())]
    lines += [f"  {name}_V volt({i})={volt:.8f}V" for i, (name, (_, volt)) in enumerate(rails.items())]
    parsed = pi.parse_pmic("\n".join(lines))
    total = sum(ampere * volt for ampere, volt in rails.values())
    assert values(parsed)["board.power_w"] == pytest.approx(1.1451 * total + 0.5879)
    assert parsed.notes == []


def test_the_pis_power_is_the_sum_over_its_rails_by_the_published_formula():
    parsed = pi.parse_pmic((SENSORS / "pmic.txt").read_text())
    found = values(parsed)
    rails_w = 0.081 * 3.7 + 0.05 * 3.3 + 1.25 * 0.72
    assert found["vdd_core.power_w"] == pytest.approx(0.9)
    assert found["board.power_w"] == pytest.approx(1.1451 * rails_w + 0.5879)
    assert "ext5v.power_w" not in found  # a voltage alone; its name holds a number and a V
    assert found["ext5v.voltage_v"] == 5.1


def test_the_pis_power_with_a_rail_missing_is_nan_not_less():
    text = (SENSORS / "pmic.txt").read_text().replace("VDD_CORE_V", "VDD_CORE_X")
    assert unknown(pi.parse_pmic(text), "board.power_w", "vdd_core.power_w")


def test_throttle_bits_now_and_latched():
    calm, both, temp, bare = (
        values(pi.parse_throttled(line)) for line in (SENSORS / "throttled.txt").read_text().splitlines()
    )
    assert not any(calm.values())
    assert both["throttle.under_voltage"] == both["throttle.under_voltage_latched"] == 1
    assert both["throttle.throttled"] == both["throttle.throttled_latched"] == 1
    assert both["throttle.clock_capped"] == 0
    assert temp["throttle.soft_temp_limit"] == temp["throttle.soft_temp_limit_latched"] == 1
    assert bare["throttle.clock_capped_latched"] == 1  # the kernel's file has no prefix
    assert pi.parse_throttled("throttled=0x100").notes == ["throttle bits 0x100"]
    assert pi.parse_throttled("VCHI initialization failed").values == {}
