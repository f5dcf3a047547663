"""Drivers by the configured runtimes."""

import pytest

from app.agent.runtimes import drivers as drivers_
from app.agent.runtimes.command import Command
from app.agent.runtimes.entry import KINDS
from tests.app.agent.runtimes.stand import ask, drivers_of, entry, run_of, script


def test_a_server_that_starts_while_the_client_leaves_is_ended(monkeypatch):
    made = []

    def start(*args, **more):
        made.append(Command(*args, **more))
        drivers.kill()  # it is not known yet
        return made[-1]

    monkeypatch.setattr(drivers_, "Command", start)
    drivers, answers, done = drivers_of(entry("llama-server", argv=script("import time; time.sleep(99)")[:3]))
    ask(drivers, done)
    assert answers[-1]["kind"] == "cancelled"
    assert made[0].status is not None
    assert made[0]._guard is None


def test_what_is_not_configured_is_refused_by_name():
    drivers, _, _ = drivers_of(entry())
    assert drivers.why_not({"runtime": "mlc_gpu"}) == "runtime mlc_gpu is not configured on this board"
    assert "runs smollm2-135m, not qwen2-1.5b" in drivers.why_not({"runtime": "llamacpp_cpu", "model": "qwen2-1.5b"})
    assert drivers.why_not(run_of().point) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_driver_of_its_name(kind):
    measure = drivers_.driver(kind)
    assert (measure.__module__, measure.__name__) == (f"app.agent.runtimes.{kind.replace('-', '_')}", "measure")
