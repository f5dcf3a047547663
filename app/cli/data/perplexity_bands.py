"""``trilemma data validate TABLE --perplexity``: published perplexities against bands learned from other models."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from app.cli.shared.output import UserError, print_json, print_table
from core.catalogue.load import load_catalogue
from core.tables.perplexity_rows import Bands, bands, read_perplexities


def report_bands(table: str, *, json: bool) -> int:
    """Read a table of perplexities, predict each model from the others, and print the coverage of the bands.

    Raises
    ------
    UserError
        One sentence: the file cannot be read, or has too few comparable models.
    """
    try:
        rows, left_out = read_perplexities(table, load_catalogue().weight_formats)
        found = bands(rows, left_out)
    except OSError as error:
        raise UserError(f"{table}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise UserError(f"{table}: {error}") from error
    if json:
        print_json({"table": table, **asdict(found)})
    else:
        _print(found)
    return 0


def _print(found: Bands) -> None:
    print(
        f"{found.n_rows} rows of {found.n_models} models: {100 * found.coverage_frac:.0f} % lie in the 90 % band that "
        f"the other models give; the degradation is off by a factor of {found.median_factor:.2f} (median)"
    )
    for reason, n in Counter(reason for _, reason in found.left_out).most_common(10):
        print(f"  {n} x {reason}")
    print()
    print_table([("MODEL", "IN THE BAND", "ROWS"), *((m, str(n), str(of)) for m, (n, of) in found.by_model.items())])
    if found.outside:
        print("\nOutside it:")
        print_table(
            [
                ("LINE", "MODEL", "FORMAT", "BITS", "LN PPL RATIO"),
                *((str(r.line), r.model, r.format, f"{r.bits:.3g}", f"{r.degradation:.4f}") for r in found.outside),
            ]
        )
