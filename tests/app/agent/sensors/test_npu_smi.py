"""The table of npu-smi."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.sensors import npu_smi
from tests.app.agent.sensors.parsed import MIB, SENSORS, unknown, values

chips = st.tuples(st.integers(0, 9999) | st.none(), st.integers(-40, 150), st.integers(0, 100), st.integers(1, 65536))


@given(st.dictionaries(st.tuples(st.integers(0, 64), st.integers(0, 1)), chips, min_size=1, max_size=6))
def test_a_table_of_any_npus_comes_back(table):
    lines = []
    for (npu, chip), (deciwatt, temp, load, total) in table.items():
        power = "NA" if deciwatt is None else f"{deciwatt / 10:.1f}"
        lines.append(f"| {npu:<7} 310P3                 | OK              | {power:<12} {temp:<17} 0     / 0 |")
        lines.append(f"| {chip:<7} {chip}                     | 0000:82:00.0    | {load:<12} 7 / {total} |")
        lines.append("+" + "=" * 60 + "+")
    parsed = npu_smi.parse("\n".join(lines))
    for (npu, chip), (deciwatt, temp, load, total) in table.items():
        name = f"npu{npu}_{chip}"
        assert values(parsed)[f"{name}.temp_c"] == temp
        assert values(parsed)[f"{name}.busy_frac"] == load / 100
        assert values(parsed)[f"{name}.memory.total_byte"] == total * MIB
        if deciwatt is None:
            assert f"{name}.power_w" in parsed.missing
        else:
            assert values(parsed)[f"{name}.power_w"] == pytest.approx(deciwatt / 10)


def test_npu_smi_two_lines_a_chip():
    parsed = npu_smi.parse((SENSORS / "npu_smi.txt").read_text())
    found = values(parsed)
    assert found["npu0_0.power_w"] == 7.4
    assert found["npu0_0.busy_frac"] == 0.83
    assert found["npu0_0.memory.total_byte"] == 7545 * MIB
    assert unknown(parsed, "npu1_0.power_w")  # 0.0 with an alarm is no power
    assert {"npu32_0.power_w", "npu32_1.power_w"} <= set(parsed.missing)  # NA
    assert found["npu32_0.memory.used_byte"] == 19012 * MIB  # no blank before the stroke
    assert found["npu32_1.temp_c"] == 39  # the second chip of a card
    assert "npu5_0.memory.used_byte" in parsed.missing  # 0 / 0: it has none of that kind
    assert found["npu5_0.hbm.used_byte"] == 34110 * MIB
    assert parsed.notes == ["1 310B4 Alarm"]


NPU_26 = """
| npu-smi 26.0.rc2                            Version: 26.0.rc2                                        |
| NPU   Name                | Health        | Power(W)             Temp(C)       Hugepages-Usage(page)   |
| Chip                      | Bus-Id        | AICore(%)            Memory-Usage(MB)  HBM-Usage(MB)       |
+===========================+===============+==========================================================+
| 0     Ascend910           | OK            | 161.0                33            0    / 0                |
| 0     0                   | 0000:9D:00.0  | 3                    0    / 0      3319 / 65536            |
| 0     Ascend910           | OK            | -                    31            0    / 0                |
| 1     1                   | 0000:9F:00.0  | 0                    0    / 0      2174 / 65536            |
+===========================+===============+==========================================================+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)  | Process id in co |
| 0       0                 | 4711          | python3            | 12417               | NA               |
"""


def test_npu_smi_26_with_two_chips_on_a_card_and_its_processes():
    parsed = npu_smi.parse(NPU_26)
    assert values(parsed)["npu0_0.power_w"] == 161
    assert "npu0_1.power_w" in parsed.missing  # the card's power is that of its first chip
    assert values(parsed)["npu0_1.hbm.used_byte"] == 2174 * MIB
    assert parsed.notes == []
