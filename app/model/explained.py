"""The verdict on the store's point. Free of Qt widgets: views put it on the screen by `app.text.explain`."""

from __future__ import annotations

from app.model.store import Store
from app.text import explain as text
from core.predict.explain import Verdict, explain
from core.predict.scenario import initial_posterior
from core.spec import Posterior


def known(store: Store) -> Posterior:
    """Return the posterior that the prediction of the store's point rests on."""
    at, posterior = store.catalogue.resolve(store.point), store.posterior
    here = (at.board.key, at.runtime.key, at.mode.key)
    if posterior is not None and (posterior.board, posterior.runtime, posterior.power_mode) == here:
        return posterior
    return initial_posterior(at, store.catalogue)


def explained(store: Store) -> Verdict:
    """Return the verdict on the store's point; measured values take precedence over predicted ones."""
    limits = store.limits
    return explain(
        store.point,
        store.catalogue,
        known(store),
        alpha_max=store.r_max.alpha,
        latency_s=limits.latency_s,
        power_w=limits.power_w,
        accuracy_frac=limits.top1_agreement,
        request_s=limits.request_p99_s,
        sustained_tokens_s=limits.sustained_tokens_s,
        answer_tokens=limits.tokens,
        sustained=store.sustained,
        measured=store.measured,
        predicted=store.prediction_of,
    )


def evidence(store: Store) -> str:
    """Return the evidence of the decode time of the store's point."""
    n_points = len(store.calibration.points) if store.calibration else 0
    return text.evidence(store.prediction.decode_s, known(store), n_points)
