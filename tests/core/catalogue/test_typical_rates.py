import pytest

from core.catalogue.typical_rates import UNKNOWN_VECTOR_LOG_SD, with_rate_uncertainty
from core.spec import PowerMode


@pytest.mark.parametrize(
    ("unit", "vector_op_s", "log_sd"),
    [
        ("cpu", None, UNKNOWN_VECTOR_LOG_SD),
        ("gpu", None, UNKNOWN_VECTOR_LOG_SD),
        ("cpu", 1e11, 0.0),
        ("npu", None, 0.0),
    ],
)
def test_only_a_rate_that_no_source_states_is_uncertain(unit, vector_op_s, log_sd):
    mode = PowerMode("default", bandwidth_byte_s=17e9, vector_op_s=vector_op_s)
    assert with_rate_uncertainty(mode, unit).vector_log_sd == log_sd
