"""Points, bodies and a board that answers as scripted, for the tests of campaigns."""

from app.campaign.plan import SPEED, Round
from app.client.blocking_session import LinkError
from app.library.measurements import OUTPUTS_OF
from app.library.records import PointRecord
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
MACHINE = "a machine"
A = OperatingPoint(weights="int8", context_tokens=256.0)
B = OperatingPoint(weights="int4", context_tokens=1024.0, alpha=0.5)
C = OperatingPoint(weights="bf16", context_tokens=2048.0)
SPEEDS = (Round((A, B, C), SPEED),) * 3


def value(median):
    return {"median": median, "q05": median / 1.02, "q95": median * 1.02, "n": 9, "provenance": "measured"}


def body_of(what, seconds=0.01, **more):
    """Return what a board answers: an output for each part that was asked for, the others absent."""
    names = {name: part for part, outputs in OUTPUTS_OF.items() for name in outputs}
    told = {n: value(seconds) if part in what else {"absent": f"{part} was not asked for"} for n, part in names.items()}
    return {**told, **more}


class Killed(BaseException):
    """The process ends here and now."""


class FakeBoard:
    """Answers runs in turn; `script` has by call, from 0, what comes in place of an answer: more keys or an error."""

    def __init__(self, script=None):
        self.script, self.asked = script or {}, []

    def measure(self, point, what, on_progress, *, model_file=None, options=None):
        call = len(self.asked)
        self.asked.append((PointRecord(**point).point(), what, options, model_file))
        on_progress(0.5, "generating tokens")
        instead = self.script.get(call, {})
        if isinstance(instead, BaseException):
            raise instead
        return body_of(what, seconds=0.01 + 0.001 * call, **instead)


def failure(reason="it does not fit"):
    return LinkError("failed", reason)
