"""RKLLM's demo."""

import pytest

from app.agent.runtimes import rkllm
from tests.app.agent.runtimes.stand import ask, drivers_of, entry, script

RKLLM = """I rkllm: rkllm-runtime version: 1.2.1, rknpu driver version: 0.9.8, platform: RK3588
I rkllm: rkllm-toolkit version: 1.2.1, max_context_limit: 4096, npu_core_num: 3, model_dtype: W8A8_G128
user: An edge board ...
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Model init time (ms)  2201.34
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Stage         Total Time (ms)  Tokens    Time per Token (ms)      Tokens per Second
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Prefill       400.50           100       4.01                     249.69
I rkllm:  Generate      2400.00          48        50.00                    20.00
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Memory Usage (GB)
I rkllm:  1.25
I rkllm: --------------------------------------------------------------------------------------
"""


def test_the_table_of_rkllm_is_read():
    table = rkllm.parse(RKLLM)
    expected = {"prefill_s": 0.4005, "n_prompt": 100, "generate_s": 2.4, "n_generated": 48, "memory_byte": 1.25e9}
    assert table == pytest.approx(expected)
    assert rkllm.parse("Prefill 12 tokens\nGenerate\n") == {}


def test_rkllm_demo_is_run_with_the_prompt_typed_into_it():
    text = f"import sys; assert sys.stdin.readlines()[-1] == 'exit\\n'; print({RKLLM!r})"
    drivers, answers, done = drivers_of(entry("rkllm", "", argv=script(text)))
    ask(drivers, done)
    body = answers[-1]["body"]
    assert body["decode_s"]["median"] == pytest.approx(0.05)
    assert body["applied"]["context_tokens"] == 100
    assert body["memory_byte"]["median"] == 1.25e9
    assert body["conditions"]["version"] == "1.2.1"
    assert body["applied"]["weights"] == "W8A8_G128"
