"""The parameters of a board under any order of steps, by two agents, with pauses and crashes, against a simple model.

The model knows three things: the live set, the one before it, and what each agent has on trial. Only `verify_live` and
`rollback` may change what is live, and only to a set that was verified.
"""

import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from app.agent import slots
from app.agent.parameters import TIMEOUT_S, Parameters
from app.agent.slots import Slots
from app.parameter_set import CONTEXT, ParametersError, ParameterSet, decode

FOR = dict.fromkeys(CONTEXT, "x")
GOOD = [ParameterSet(FOR, 0.1 * i, (0.25 * i,) * i) for i in (1, 2, 3)]
BAD = [ParameterSet(FOR, 3.0, (1.0,)), ParameterSet(FOR, 0.5, (float("nan"),))]
PROBE = 1.2
AGENTS = st.sampled_from((0, 1))


class Board(RuleBasedStateMachine):
    """Two agents on one board."""

    def __init__(self):
        super().__init__()
        self._temporary = tempfile.TemporaryDirectory()
        self.folder, self.now_s = Path(self._temporary.name), 0.0
        self.agents = [self.started(), self.started()]
        self.sent, self.verified, self.trial = [b"", b""], [b"", b""], [(0, b""), (0, b"")]
        self.live, self.older = None, None

    def started(self):
        return Parameters(Slots(self.folder), TIMEOUT_S, lambda: self.now_s)

    def teardown(self):
        self._temporary.cleanup()

    def does(self, agent, name, **members):
        """Return a step's answer, None where it is refused; nothing else may come out."""
        try:
            return self.agents[agent].step(name, members)
        except ParametersError:
            return None

    @rule(agent=AGENTS, wanted=st.sampled_from(GOOD + BAD), cut=st.integers(1, 40))
    def send(self, agent, wanted, cut):
        data = wanted.encode()
        if all(self.does(agent, "set", offset=i, total=len(data), data=data[i : i + cut].hex()) for i in
               range(0, len(data), cut)):  # fmt: skip
            self.sent[agent] = data

    @rule(agent=AGENTS, offset=st.integers(0, 60), total=st.integers(0, 60), data=st.binary(max_size=60))
    def send_noise(self, agent, offset, total, data):
        if self.does(agent, "set", offset=offset, total=total, data=data.hex()):
            self.sent[agent] = b""

    @rule(agent=AGENTS, wanted=st.sampled_from(GOOD))
    def prepare(self, agent, wanted):
        self.send(agent, wanted, 40)
        self.verify(agent, right=True)

    @rule(agent=AGENTS, wanted=st.sampled_from(GOOD))
    def install(self, agent, wanted):
        self.prepare(agent, wanted)
        self.commit(agent)
        self.verify_live(agent, 0.0, False)

    @rule(agent=AGENTS, wanted=st.sampled_from(GOOD))
    def commit_after_the_other_installed(self, agent, wanted):
        self.prepare(agent, wanted)
        self.install(1 - agent, wanted)
        self.commit(agent)

    @rule(agent=AGENTS, right=st.booleans())
    def verify(self, agent, right):
        crc = zlib.crc32(self.sent[agent])
        if self.does(agent, "verify", crc=crc if right else crc ^ 1):
            assert right
            assert decode(self.sent[agent]) in [decode(wanted.encode()) for wanted in GOOD]
            self.verified[agent] = self.sent[agent]

    @rule(agent=AGENTS)
    def commit(self, agent):
        answer = self.does(agent, "commit")
        if answer:
            assert answer["crc"] == zlib.crc32(self.verified[agent])
            self.trial[agent], self.older = (answer["epoch"], self.verified[agent]), None

    @rule(agent=AGENTS, wrong=st.sampled_from((0.0, 0.0, 0.1, float("nan"), 1e300)), later=st.booleans())
    def verify_live(self, agent, wrong, later):
        epoch, data = self.trial[agent]
        expected = [value + wrong for value in decode(data).compensate([PROBE])] if data else []
        self.trial[agent] = (0, b"")
        if self.does(agent, "verify_live", epoch=epoch + later, first=0, probe=[PROBE], expected=expected):
            assert wrong == later == 0
            self.live, self.older = data, self.live

    @rule(agent=AGENTS)
    def roll_back(self, agent):
        before = self.does(agent, "status")
        answer = self.does(agent, "rollback")
        self.trial[agent] = (0, b"")
        if answer and before["state"] == "idle" and "the trial was given up" not in before["said"]:
            assert self.live is not None
            self.live, self.older = self.older, None

    @rule(pause_s=st.sampled_from((0.4, 0.6)))
    def wait(self, pause_s):
        self.now_s += pause_s

    @rule(agent=AGENTS)
    def crash(self, agent):
        self.agents[agent] = self.started()
        self.trial[agent] = (0, b"")

    @invariant()
    def the_live_set_is_the_one_that_was_kept(self):
        assert Slots(self.folder).live()[2] == self.live


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(slots.os, "fsync", lambda fd: None)


def test_only_a_set_that_was_verified_is_ever_live(quick_disk):
    run_state_machine_as_test(Board, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))
