"""``trilemma data learn TABLE.csv --into FOLDER``: priors of runtimes and fits of boards from a published table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from app.cli.data.published_table import compared_table
from app.cli.shared.output import UserError, print_json, print_table
from app.library.files import FileError, write_all
from core.catalogue import calibration_file
from core.catalogue.load import load_catalogue
from core.spec import OWN_RUNTIME, PARAMETER_NAMES, Catalogue, Prior, Runtime
from core.spec.interval_scale import HeldOut
from core.tables.as_points import Comparison
from core.tables.board_posteriors import BoardPosterior, fit_boards
from core.tables.held_out import scores
from core.tables.hierarchical_priors import REPEAT_LOG_SD, SIZE_LOG_SD, Learner, Population
from core.tables.validation import validate

SCATTER, FACTORS = ("model_log_sd", "prompt_log_sd"), ("model_factor", "prompt_factor")
LEARNED = {"priors", *SCATTER, *FACTORS, "size_log_sd", "repeat_log_sd"}
"""Learned fields of a runtime; its file gives the others."""

EXAMPLES = """examples:
  trilemma data learn resources/measurements/llm_decode.csv                    the priors that follow from it
  trilemma data learn resources/measurements/llm_decode.csv --into learned     and as files of the catalogue"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the table and where to write."""
    parser.add_argument("table", metavar="TABLE.csv", help="published measurements, in the columns of `validate`")
    parser.add_argument("--into", metavar="FOLDER", help="folder for runtimes/*.toml and calibrations/*.json")


def run(args: argparse.Namespace) -> int:
    """Learn, write the files if asked, and report."""
    catalogue = replace(load_catalogue(), board_posteriors={})
    _, compared = compared_table(args.table, catalogue)
    learner = Learner(compared.rows, compared.catalogue)
    population = learner.learn()
    every = {key: _as_written(one) for key, one in with_priors(compared.catalogue, population).items()}
    runtimes = {key: every[key] for key in catalogue.runtimes}
    held_out = scores(validate(compared, without_board(compared, learner)).unscaled, compared)
    known = replace(compared.catalogue, runtimes=every, held_out=held_out)
    fits = fit_boards(replace(compared, catalogue=known), catalogue)
    if args.into is not None:
        _write(Path(args.into), runtimes, catalogue, population, held_out, fits, Path(args.table).name)
    if args.json:
        print_json(_document(runtimes, population, fits))
    else:
        _print(runtimes, population, fits)
    return 0


def with_priors(catalogue: Catalogue, population: Population) -> dict[str, Runtime]:
    """Return the runtimes with the learned priors."""
    return {key: one if key == OWN_RUNTIME else population.applied(one) for key, one in catalogue.runtimes.items()}


def _as_written(runtime: Runtime) -> Runtime:
    """Return the runtime as written to its file, so that fits of boards use the shipped priors."""

    def rounded(prior: Prior) -> Prior:
        return Prior(float(f"{prior.median:.4g}"), float(f"{prior.log_sd:.3g}"))

    scatter = {name: float(f"{getattr(runtime, name):.3g}") for name in SCATTER}
    priors = {
        name: {key: rounded(prior) for key, prior in getattr(runtime, name).items()}
        for name in ("priors", "ratios", *FACTORS)
    }
    changes: dict[str, Any] = {**scatter, **priors}
    return replace(runtime, **changes)


def without_board(compared: Comparison, learner: Learner) -> Callable[[str], Catalogue]:
    """Return the catalogue for a board with priors learned without its rows; cached by fold."""
    known = dict[frozenset[str], Catalogue]()

    def catalogue_of(board: str) -> Catalogue:
        left_out = learner.fold_of(board)
        if left_out not in known:
            runtimes = with_priors(compared.catalogue, learner.learn(left_out))
            # what is known of single formats was not learned without the board
            bare = {key: replace(runtime, ratios={}) for key, runtime in runtimes.items()}
            known[left_out] = replace(compared.catalogue, runtimes=bare)
        return known[left_out]

    return catalogue_of


def _write(
    folder: Path,
    runtimes: dict[str, Runtime],
    catalogue: Catalogue,
    population: Population,
    held_out: HeldOut,
    fits: list[BoardPosterior],
    table: str,
) -> None:
    source = (
        f"`trilemma data learn {table}`: empirical Bayes over {population.n_rows} decode rows of {population.n_groups} "
        "board x runtime x mode groups"
    )
    texts = {
        f"runtimes/{key}.toml": _toml(runtime, catalogue.runtimes[key].sources, source)
        for key, runtime in runtimes.items()
        if key != OWN_RUNTIME
    }
    texts["held_out.toml"] = _held_out(held_out, table)
    for fit in fits:
        known = fit.posterior
        name = f"{calibration_file.FOLDER}/{known.board}.{known.runtime}.{known.power_mode}.json"
        texts[name] = _json(calibration_file.document(known, _about(fit, table)))
    try:
        write_all(folder, {name: text.encode() for name, text in texts.items()})
    except FileError as error:
        raise UserError(f"into: {error}") from error


def _held_out(held_out: HeldOut, table: str) -> str:
    lines = [
        f'source = "`trilemma data learn {table}`: |ln predicted - ln measured| over the log-sd of a prediction, each '
        'board left out of the priors; quantiles at 0.02, 0.06, ... 0.98, each board counting once"',
    ]
    for quantity, by_bucket in held_out.scores.items():
        lines += ["", f"[{quantity}]"]
        lines += [f"{of} = [{', '.join(f'{x:.4g}' for x in quantiles)}]" for of, quantiles in by_bucket.items()]
    return "\n".join(lines) + "\n"


def _json(document: dict[str, Any]) -> str:
    """Return a document with one line per key, and one per row of the covariance."""
    lines = []
    for key, value in document.items():
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if key == "log_cov":
            text = "[\n" + ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in value) + "\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _about(fit: BoardPosterior, table: str) -> dict[str, Any]:
    return {
        "source": f"`trilemma data learn {table}`: {', '.join(fit.sources)}",
        "n_rows": fit.n_rows,
        "n_models": fit.n_models,
        "leave_one_model_out": asdict(fit.leave_one_model_out) if fit.leave_one_model_out else None,
    }


def _toml(runtime: Runtime, sources: Any, source: str) -> str:
    stated = _stated(runtime)
    lines = [
        *(f"{name} = {_toml_value(value)}" for name, value in stated.items()),
        f"model_log_sd = {runtime.model_log_sd:.3g}",
        f"prompt_log_sd = {runtime.prompt_log_sd:.3g}",
        f"size_log_sd = {SIZE_LOG_SD}",
        f"repeat_log_sd = {REPEAT_LOG_SD}",
    ]
    priors = {name: (prior, source) for name, prior in runtime.priors.items()}
    priors |= {f"format_{name}": (prior, sources[f"format_{name}"]) for name, prior in runtime.ratios.items()}
    for name, (prior, of_prior) in priors.items():
        lines += ["", f"[{name}]", f"median = {prior.median:.4g}", f"log_sd = {prior.log_sd:.3g}"]
        lines.append(f"source = {json.dumps(of_prior, ensure_ascii=False)}")
    factors: dict[str, dict[str, Prior]] = {name: getattr(runtime, name) for name in FACTORS}
    for name, of_models in factors.items():
        lines += ["", f"[{name}]"] if of_models else []
        lines += [f"{json.dumps(key)} = [{of.median:.4g}, {of.log_sd:.3g}]" for key, of in of_models.items()]
    said = {
        "model_log_sd": f"between models on one board; {source}",
        "prompt_log_sd": f"between models' prompts on one board; {source}",
        "size_log_sd": "[prior] what models of similar size share beyond the equations",
        "repeat_log_sd": "[prior] of a new run; tables of one board and model differ by 3 to 10 %",
        **{name: f"of another board of this runtime; {source}" for name, of_models in factors.items() if of_models},
        **{name: of for name, of in sources.items() if name in stated},
    }
    lines += ["", "[sources]", *(f"{name} = {json.dumps(of, ensure_ascii=False)}" for name, of in said.items())]
    return "\n".join(lines) + "\n"


def _stated(runtime: Runtime) -> dict[str, Any]:
    """Return the non-default values of a runtime's file that no table teaches."""
    given = {field: getattr(runtime, field.name) for field in fields(runtime) if field.name not in LEARNED}
    return {
        field.name: value
        for field, value in given.items()
        if isinstance(value, str | bool | int | float | tuple) and field.name != "key" and value != field.default
    }


def _toml_value(value: Any) -> str:
    """Return a text, a number, a boolean or a list of texts as TOML."""
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False)


def _document(runtimes: dict[str, Runtime], population: Population, fits: list[BoardPosterior]) -> dict[str, Any]:
    return {
        "n_groups": population.n_groups,
        "n_rows": population.n_rows,
        "runtimes": {
            key: {name: asdict(prior) for name, prior in runtime.priors.items()}
            for key, runtime in runtimes.items()
            if key != OWN_RUNTIME
        },
        "calibrations": [
            {
                "board": fit.posterior.board,
                "runtime": fit.posterior.runtime,
                "power_mode": fit.posterior.power_mode,
                "n_rows": fit.n_rows,
                "n_models": fit.n_models,
                "leave_one_model_out": asdict(fit.leave_one_model_out) if fit.leave_one_model_out else None,
            }
            for fit in fits
        ],
    }


def _print(runtimes: dict[str, Runtime], population: Population, fits: list[BoardPosterior]) -> None:
    print(f"{population.n_rows} decode rows of {population.n_groups} boards, runtimes and power modes\n")
    rows: list[tuple[str, ...]] = [("RUNTIME", *(name.upper() for name in PARAMETER_NAMES))]
    for key, runtime in runtimes.items():
        if key != OWN_RUNTIME:
            rows.append((key, *(f"{runtime.priors[name].median:.3g}" for name in PARAMETER_NAMES)))
    print_table(rows)
    print()
    table: list[tuple[str, ...]] = [("BOARD", "RUNTIME", "MODE", "ROWS", "MODELS", "A MODEL LEFT OUT")]
    for fit in fits:
        score, known = fit.leave_one_model_out, fit.posterior
        error = f"{100 * score.median_error_frac:.1f} %" if score else "-"
        table.append((known.board, known.runtime, known.power_mode, str(fit.n_rows), str(fit.n_models), error))
    print_table(table)
