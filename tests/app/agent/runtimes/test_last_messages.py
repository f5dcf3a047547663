"""Last messages and texts of runtimes, whatever they hold."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from app.agent.runtimes import llama_bench, llama_server, ollama, openai, rkllm
from app.agent.runtimes.http import sse_data
from app.agent.runtimes.outcome import Failed
from tests.app.agent.runtimes.stand import entry, timeline


@given(st.text(max_size=400))
def test_parsers_of_text_never_raise_what_they_do_not_promise(text):
    rkllm.parse(text)
    sse_data(text.encode("utf-8", "replace"))
    with contextlib.suppress(ValueError):
        llama_bench.parse(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "stop",
                        "timings",
                        "usage",
                        "prompt_n",
                        "done",
                        "eval_count",
                        "prompt_eval_count",
                        "cache_n",
                        "prompt_tokens",
                        "completion_tokens",
                        "metrics",
                    ]
                ),
                x,
            )
        ),
        max_leaves=8,
    )
)
def test_last_messages_are_answered_or_refused(value):
    last = value if isinstance(value, dict) else {"usage": value, "timings": value}
    for judge in (
        lambda: llama_server.answer_of(entry("llama-server"), timeline(), last, 128),
        lambda: ollama.answer_of(entry(), timeline(), last),
        lambda: openai.answer_of(entry("openai"), timeline(), last),
    ):
        with contextlib.suppress(Failed):
            judge()
