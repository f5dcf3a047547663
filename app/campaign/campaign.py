"""Which run of a campaign is next: a state machine without clock, link or file."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from app.campaign.plan import Round, Run, What
from app.campaign.recipe import tells
from app.library.axes import canonical, exists
from app.library.measurements import Measurement
from core.spec import Catalogue, OperatingPoint


class Campaign:
    """Runs in rounds: a round begins when all runs of the one before have ended.

    The n-th run of the same outputs at a point is left out where n measurements of them are there, `known` ones
    included. It is left out too where an earlier one failed.

    Parameters
    ----------
    rounds : sequence of Round
    catalogue : Catalogue
        Names the boards and modes of the points.
    known : iterable of Measurement
        What counts as measured already.
    model_file : Path, optional
        Another GGUF file to run.
    strict : bool
        Whether the first failure ends the campaign.

    Attributes
    ----------
    n_runs : int
        Runs of all rounds, left out ones too.
    what : tuple of str
        Of the round at hand.
    n_asked : int
        Runs of the round at hand that were asked for.
    failures : dict
        Reason by point and parts of a run.
    """

    def __init__(
        self,
        rounds: Sequence[Round],
        catalogue: Catalogue,
        known: Iterable[Measurement] = (),
        *,
        model_file: Path | None = None,
        strict: bool = False,
    ) -> None:
        self.model_file = None if model_file is None else str(model_file.resolve())
        self.n_runs, self.n_asked, self.what = 0, 0, What()
        self.failures: dict[tuple[OperatingPoint, What], str] = {}
        self._catalogue, self._strict = catalogue, strict
        self._have: Counter[tuple[OperatingPoint, What]] = Counter()
        self._parts = {each.what for each in rounds}
        self._left = deque(self._numbered(rounds))
        self._round: deque[Run] = deque()
        self._asked: dict[int, Run] = {}
        for measurement in known:
            self.count(measurement)

    def _numbered(self, rounds: Sequence[Round]) -> Iterator[tuple[What, list[Run]]]:
        """Yield what each round measures, and its runs."""
        times: Counter[tuple[OperatingPoint, What]] = Counter()
        for each in rounds:
            runs = []
            for point in (canonical(point, self._catalogue) for point in each.points):
                times.update((point, what) for what in self._parts if set(what) <= set(each.what))
                runs.append(Run(point, each.what, each.options, self.n_runs, times[point, each.what]))
                self.n_runs += 1
            yield each.what, runs

    @property
    def waiting(self) -> bool:
        """Whether a run that was asked for has not ended."""
        return bool(self._asked)

    @property
    def failure(self) -> str:
        """Reason of the first failure, "" where there is none."""
        return next(iter(self.failures.values()), "")

    @property
    def n_ended(self) -> int:
        """Runs of the round at hand that were asked for and have ended."""
        return self.n_asked - len(self._asked)

    def begin_round(self) -> bool:
        """Begin the next round; False while results are awaited, and when no round is left."""
        if self._asked or not self._left:
            return False
        self.what, runs = self._left.popleft()
        self._round, self.n_asked = deque(runs), 0
        return True

    def next(self) -> Run | None:
        """Return the next run of the round to ask for, None when all were."""
        while self._round:
            run = self._round.popleft()
            key = run.point, run.what
            if key not in self.failures and self._have[key] < run.n_th:
                self._asked[run.number] = run
                self.n_asked += 1
                return run
        return None

    def took(self, run: Run, measurement: Measurement) -> bool:
        """Take the result of a run, whichever point the board ran; False when this campaign does not wait for it."""
        if not self._ends(run):
            return False
        self._count(run.point, measurement)
        return True

    def failed(self, run: Run, why: str) -> None:
        """Take that a run has ended without a result; nothing changes when this campaign does not wait for it."""
        if self._ends(run):
            self.failures[run.point, run.what] = why
            if self._strict:
                self.cancel()

    def count(self, measurement: Measurement) -> None:
        """Take a measurement that this campaign did not ask for."""
        if exists(measurement.point, self._catalogue):
            self._count(canonical(measurement.point, self._catalogue), measurement)

    def cancel(self) -> None:
        """Ask for nothing more; a run that was asked for may still end well."""
        self._left.clear()
        self._round.clear()

    def _ends(self, run: Run) -> bool:
        if self._asked.get(run.number) is not run:  # of another campaign, or ended before
            return False
        del self._asked[run.number]
        return True

    def _count(self, point: OperatingPoint, measurement: Measurement) -> None:
        self._have.update((point, what) for what in self._parts if tells(measurement, what))


def counted(noun: str, n_ended: int, n_all: int, done_frac: float, text: str) -> tuple[float, str]:
    """Return how far `n_all` runs are, and in words, from how far the one at hand is."""
    return (n_ended + done_frac) / n_all, f"{noun} {n_ended + 1} of {n_all}: {text}"
