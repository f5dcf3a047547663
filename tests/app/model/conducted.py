"""A conductor over a session that answers as a test says."""

from itertools import count

from app.client.events import Connected, Result
from app.library.board_library import BoardLibrary
from app.library.records import PointRecord
from app.model.conductor import Conductor
from app.model.store import Store
from core.calibrate.fit import N_PLAN
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict

CATALOGUE = load_catalogue()
HELLO = {
    "board": {"cpu": "test cpu", "n_threads": 2},
    "can": {"measure": True, "bandwidth": True, "torch": "2.13.0"},
    "models": [{"file": "m.gguf", "byte": 98}],
}
N_ATTACH = 2 + N_PLAN  # the bandwidth and the point on the screen, which is not in the plan
BANDWIDTH = {"read_byte_s": {"median": 20e9, "q05": 19e9, "q95": 21e9, "n": 9, "provenance": "measured"}}


def value(median):
    return {"median": median, "q05": median / 1.02, "q95": median * 1.02, "n": 9, "provenance": "measured"}


class ScriptedSession:
    """Takes requests down and says what the test tells it to say."""

    silent_s = 0.0

    def __init__(self, on_event):
        self.say = on_event
        self.asked = {}  # id -> (operation, point, what, queued)
        self.cancelled, self.log, self.options = [], [], []
        self._ids = count(1)

    def start(self):
        self.log.append("start")

    def stop(self):
        self.log.append("stop")

    def reconnect_now(self):
        self.log.append("reconnect")

    def bandwidth(self):
        return self._take("bandwidth", None, (), True)

    def measure(self, point, what, *, queue=False, options=None):
        self.options.append(options)
        return self._take("measure", PointRecord(**point).point(), tuple(what), queue)

    def parameters(self, step, members):
        return self._take("parameters", step, (), False)

    def cancel(self, request_id):
        self.cancelled.append(request_id)

    def _take(self, *request):
        request_id = next(self._ids)
        self.asked[request_id] = request
        return request_id

    def answer(self, request_id, factor=1.5):
        """Answer a request as a board would whose times are the prior's, times a factor."""
        op, point, what, _ = self.asked.pop(request_id)
        if op == "bandwidth":
            self.say(Result(request_id, BANDWIDTH))
            return
        names = ("decode_s", "power_w", "ttft_s", "top1_agreement")
        body = {name: {"absent": "not asked for"} for name in names}
        if "decode" in what:
            body["decode_s"] = value(factor * float(predict(point, CATALOGUE).decode_s.median))
        if "quality" in what:
            body |= {"top1_agreement": value(0.95), "ttft_s": value(0.5)}
        self.say(Result(request_id, body))


class Board:
    def __init__(self, path):
        self.store = Store(CATALOGUE)
        library = BoardLibrary(path.parent, lambda text: self.store.say("warning", text))
        self.conductor = Conductor(self.store, self._make, library)

    def _make(self, on_event):
        self.session = ScriptedSession(on_event)
        return self.session

    def hear(self, *events):
        """Say events and let the conductor take them, its calibration included."""
        for event in events:
            self.session.say(event)
        self.drain()

    def drain(self):
        self.take()
        while self.conductor.fitting.running:
            self.conductor.fitting.join()
            self.take()

    def take(self):
        """Let the conductor take every event that waits; on a busy machine that takes several frames."""
        self.conductor._drain()
        while self.conductor._queue:
            self.conductor._drain()

    def answer_all(self):
        while self.session.asked:
            self.session.answer(next(iter(self.session.asked)))
            self.take()
        self.drain()

    def attach(self):
        self.hear(Connected(HELLO))

    def asked(self):
        return list(self.session.asked.values())
