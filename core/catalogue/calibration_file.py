"""Board posteriors (fits to published rows of a board, runtime and power mode) as JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from importlib.resources import files
from typing import Any

import numpy as np

from core.spec import PARAMETER_NAMES, Posterior
from core.spec.interval_scale import IntervalScale

FOLDER = "calibrations"
MAX_NUMBER = 1e18
_DIGITS = 7  # significant, of means and covariances
_NUMBERS = ("bandwidth_byte_s", "decode_log_sd", "ttft_log_sd", "energy_log_sd", "degradation_log_sd", "top1_log_sd")
_COUNTS = ("n_decode", "n_ttft", "n_quality", "n_energy")
_TEXTS = ("board", "runtime", "power_mode", "power_covers", "basis")


def document(posterior: Posterior, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a posterior as JSON values; the covariance is stored as the rows of its lower triangle.

    Parameters
    ----------
    posterior : Posterior
    about : mapping
        Further entries on the data and the quality of the fit; `posterior_from` ignores them.
    """
    plain: dict[str, Any] = {
        field.name: getattr(posterior, field.name)
        for field in fields(posterior)
        if field.name
        not in ("names", "log_mean", "log_cov", "interval_scale", "interval_scale_basis", "reselection", "moved_from")
    }
    plain["interval_scale"] = {name: _rounded(x) for name, x in asdict(posterior.interval_scale).items()}
    triangle = [[_rounded(x) for x in row[: i + 1]] for i, row in enumerate(posterior.log_cov)]
    return {
        **about,
        **plain,
        "names": list(posterior.names),
        "log_mean": [_rounded(x) for x in posterior.log_mean],
        "log_cov": triangle,
    }


def _rounded(value: float) -> float:
    return float(f"{float(value):.{_DIGITS}g}")


def posterior_from(where: str, found: Any) -> Posterior:
    """Return the posterior of a document.

    Parameters
    ----------
    where : str
        Name of the file, for messages.
    found : object
        Parsed JSON.

    Raises
    ------
    ValueError
        ``where: key: got X, expected Y`` for the first error.
    """
    if not isinstance(found, dict):
        raise ValueError(f"{where}: got {type(found).__name__}, expected one JSON object")
    try:
        return _posterior(where, found)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{where}: got a value of another type or size ({error}), expected numbers") from error


def _posterior(where: str, found: Mapping[str, Any]) -> Posterior:
    names = tuple(_checked(where, found, "names", list))
    n = len(names)
    if not set(PARAMETER_NAMES) <= set(names):
        raise ValueError(
            f"{where}: names: got {', '.join(map(str, names))}, expected also {', '.join(PARAMETER_NAMES)}"
        )
    mean, triangle = _checked(where, found, "log_mean", list), _checked(where, found, "log_cov", list)
    if len(mean) != n or [len(row) for row in triangle] != list(range(1, n + 1)):
        raise ValueError(f"{where}: log_cov: got another shape, expected the lower triangle of {n} parameters")
    cov = np.zeros((n, n))
    for i, row in enumerate(triangle):
        cov[i, : i + 1] = cov[: i + 1, i] = row
    if not np.all(np.isfinite(np.array(mean, dtype=float))):
        raise ValueError(f"{where}: log_mean: got a value that is not finite, expected numbers")
    if not np.all(np.isfinite(cov)) or np.linalg.eigvalsh(cov)[0] <= 0.0:
        raise ValueError(f"{where}: log_cov: got a matrix that is not positive definite, expected a covariance")
    given: dict[str, Any] = {
        **{name: float(_checked(where, found, name, (int, float))) for name in _NUMBERS},
        **{name: _checked(where, found, name, str) for name in _TEXTS},
        **{name: _checked(where, found, name, int) for name in _COUNTS},
    }
    scale = _checked(where, found, "interval_scale", dict)
    interval_scale = IntervalScale(
        *(
            float(_checked(f"{where}: interval_scale", scale, field.name, (int, float)))
            for field in fields(IntervalScale)
        )
    )
    return Posterior(
        interval_scale=interval_scale, names=names, log_mean=np.array(mean, dtype=float), log_cov=cov, **given
    )


def _checked(where: str, found: Mapping[str, Any], key: str, kind: Any) -> Any:
    value = found.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{where}: {key}: got {value!r:.60}, expected another type")
    if isinstance(value, (int, float)) and not abs(value) < MAX_NUMBER:
        raise ValueError(f"{where}: {key}: got a number beyond {MAX_NUMBER:g}, expected a smaller one")
    return value


def shipped() -> Iterator[Posterior]:
    """Yield the board posteriors of the resource files."""
    folder = files("resources").joinpath(FOLDER)
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".json"):
            yield posterior_from(f"{FOLDER}/{entry.name}", json.loads(entry.read_text("utf-8")))


def without(posterior: Posterior, dropped: set[str]) -> Posterior:
    """Return the marginal posterior without some parameters."""
    kept = [i for i, name in enumerate(posterior.names) if name not in dropped]
    return replace(
        posterior,
        names=tuple(posterior.names[i] for i in kept),
        log_mean=posterior.log_mean[kept],
        log_cov=posterior.log_cov[np.ix_(kept, kept)],
    )
