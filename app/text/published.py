"""Published figures of a board in words: instruction set, KV prefetch, time of a calibration, clocks with power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from app.text.format import number_text, quantity_text
from core.catalogue.names.betas import published_betas
from core.spec import Board


class PublishedFigure(NamedTuple):
    """A published figure: its name, its value in words, and its source."""

    name: str
    text: str
    source: str


def beta_choices(boards: Mapping[str, Board]) -> list[tuple[str, float, str]]:
    """Return the published factors of instruction sets as (words, factor, source)."""
    return [(f"{one.name}: {number_text(one.beta, 2)}", one.beta, one.source) for one in published_betas(boards)]


def published_figures(board: Board) -> list[PublishedFigure]:
    """Return the published figures of a board of the catalogue, in a fixed order; none for most boards."""
    key, sources = board.data_sheet or board.key, board.sources
    found = list[PublishedFigure]()
    if not (board.listed or board.data_sheet):
        return found
    from core.articles.as_printed.article_b import CALIBRATION  # these are not of the first window
    from core.catalogue.energy import load_dvfs
    from core.catalogue.names.boards import boards_called

    if board.published_beta is not None:
        words = f"{number_text(board.published_beta, 2)} relative to ARM SVE2 ({board.instruction_set})"
        found.append(PublishedFigure("Instruction set β", words, sources["published_beta"]))
    if board.kv_prefetch:
        found.append(PublishedFigure("KV prefetch", board.kv_prefetch, sources["kv_prefetch"]))
    for chip, (time_ms, payload_kib) in CALIBRATION.items():
        if boards_called(chip, {key: replace(board, key=key)}):
            words = f"{number_text(time_ms, 0)} ms for {number_text(payload_kib, 0)} KiB"
            found.append(PublishedFigure("SITS-Calib", words, "article B, item B11: table of times and payloads"))
    for table in load_dvfs().values():
        if table.board == key and table.power_w.size:
            columns = zip(table.clock_hz.tolist(), table.power_w.tolist(), table.throughput.tolist(), strict=True)
            rows = [
                f"{quantity_text(clock, 'Hz')}: {quantity_text(watts, 'W')}, {done:g} {table.throughput_unit}"
                for clock, watts, done in columns
            ]
            found.append(PublishedFigure("Clocks", "; ".join(rows), table.sources["power_w"]))
    return found
