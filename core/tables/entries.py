"""Records of the catalogue for the rows of a table, and new records for unknown names.

A new board is described by its bandwidth, a new runtime by its unit, a new weight format by its bits. Figures of rows
take precedence over those of the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from core.catalogue.names.formats import described, format_name, same_bits, with_scales
from core.catalogue.names.runtimes import OTHER, described_key, runtime_key
from core.catalogue.shape_regression import ANY_CONTEXT
from core.physics import traffic
from core.spec import Board, Catalogue, ModelShape, Runtime, WeightFormat
from core.tables.boards import BoardOfRow, mode_key, mode_of_row, same_bandwidth
from core.tables.row_facts import streamed_byte
from core.tables.rows import PublishedRow
from core.units import BIT_PER_BYTE

MIXTURE = 1.5
"""Total over read parameters, beyond which a model is a mixture of experts. Files store experts in fewer bits than the
parameters that every token reads, so a proportional share of the file is too small."""
LEAST_BIT, MOST_BIT = 0.5, 40.0  # range of the bits per weight
OTHER_BANDWIDTH, OTHER_SIZE = 3.0, 4.0  # factors to the catalogue, beyond which the row means another unit or record

AS_COMPUTED = frozenset({"auto", "default", "off", "full", "unquantized", "unquantised"})
"""Names of a KV cache that is not quantised, in lower case."""

KV_OF_BITS: Mapping[float, str] = {4.0: "int4", 8.0: "int8", 16.0: "bf16", 32.0: "fp32"}
"""Key of the KV format by the bits of a value, for names that give only the bits."""


class Entries:
    """Records of the catalogue for rows, and new records made from rows."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.boards = dict[str, Board]()
        self.models = dict[str, ModelShape]()
        self.formats = dict[str, WeightFormat]()
        self.runtimes = dict[str, Runtime]()
        self.bandwidth_known = dict[tuple[str, str], bool]()
        self.compute_known = dict[tuple[str, str], bool]()

    def runtime_of(self, row: PublishedRow) -> str:
        """Return the key of the row's runtime; an unknown one is added with the priors of other ones on its unit."""
        name, unit = row.text["runtime"], row.text["compute"]
        key = runtime_key(name, unit, self.catalogue.runtimes)
        if key:
            return key
        key, like = described_key(name, unit), self.catalogue.runtimes[f"{OTHER}_{unit}"]
        self.runtimes[key] = replace(like, key=key, name=name, short_name="")
        return key

    def runtime(self, key: str) -> Runtime:
        """Return a runtime of the catalogue or a new one."""
        return self.runtimes.get(key) or self.catalogue.runtimes[key]

    def board_of(self, row: PublishedRow, ran_on: BoardOfRow) -> tuple[str, str]:
        """Return the keys of the row's board and power mode, which are added where they are new."""
        unit = row.text["compute"]
        known = self.catalogue.boards.get(ran_on.name)
        same_unit = known is not None and known.unit == unit
        key = ran_on.name if same_unit else f"{ran_on.name}.{unit}"
        modes = known.power_modes if known is not None else {}
        mode = mode_key(row.text["power_mode"], modes)
        if (key, mode) in self.bandwidth_known:
            return key, mode
        described = mode_of_row(mode, unit, known, ran_on.bandwidth_byte_s)
        plain = known if known is not None and same_unit else Board(key, ran_on.name, unit, {})
        board = self.boards.get(key, plain)
        self.boards[key] = replace(board, power_modes={**board.power_modes, mode: described})
        self.bandwidth_known[key, mode] = described.bandwidth_log_sd == 0.0
        self.compute_known[key, mode] = described.compute_op_s is not None
        return key, mode

    def wrong_bandwidth(self, ran_on: BoardOfRow) -> str:
        """Return the reason that a row's bandwidth is implausible for its board; "" where it is not."""
        known, stated = self.catalogue.boards.get(ran_on.name), ran_on.bandwidth_byte_s
        if known is None or stated is None:
            return ""
        modes = [mode.bandwidth_byte_s for mode in known.power_modes.values()]
        if min(modes) / OTHER_BANDWIDTH < stated < max(modes) * OTHER_BANDWIDTH:
            return ""
        return f"dram_bandwidth_gb_s is {stated / 1e9:g}, and {known.name} has {max(modes) / 1e9:g}: a wrong unit?"

    def own_bandwidth(self, board: str, mode: str, stated: float | None) -> float | None:
        """Return the bandwidth of a row where it differs from that of its board and mode, else None."""
        theirs = self.boards[board].power_modes[mode].bandwidth_byte_s
        return None if stated is None or same_bandwidth(stated, theirs) else stated

    def extended(self) -> Catalogue:
        """Return the catalogue with the new records."""
        of = self.catalogue
        return replace(
            of,
            boards={**of.boards, **self.boards},
            models={**of.models, **self.models},
            runtimes={**of.runtimes, **self.runtimes},
            weight_formats={**of.weight_formats, **self.formats},
        )

    def weights(self, key: str) -> WeightFormat:
        """Return a weight format of the catalogue or a new one."""
        return self.formats.get(key) or self.catalogue.weight_formats[key]

    def kv_of(self, row: PublishedRow, runtime: str) -> str | None:
        """Return the key of the row's KV format, by name or by bits; without a name the usual one of the runtime.

        None for a format with unknown bits.
        """
        name = re.sub(r"^kv[ _-]?(?:cache)?[ _:=-]*", "", row.text["kv_quant"].lower())  # KV8 is 8 bits
        name = "bf16" if name in AS_COMPUTED else name or self.runtime(runtime).usual_kv
        read = format_name(name, self.catalogue.kv_formats, of_weights=False)
        return read.key or KV_OF_BITS.get(read.bits or 0.0)

    def weights_of(self, row: PublishedRow, shape: ModelShape | str) -> tuple[str, str, float] | str:
        """Return the keys of model and weight format and the bits per weight, or the reason that they are unknown."""
        if isinstance(shape, str):
            return f"the model {row.text['model']} is not in the catalogue and {shape} are not stated"
        byte = streamed_byte(row, shape)
        weights = self._format_of(row, byte, shape.body_params + shape.head_params)
        if isinstance(weights, str):
            return weights
        size = BIT_PER_BYTE * (byte or 0.0) / (shape.body_params + shape.head_params)
        if size and not 1.0 / OTHER_SIZE < size / weights.bits_per_weight < OTHER_SIZE:
            has = f"{weights.name} has {weights.bits_per_weight:.3g}"
            return f"the bytes of its weights are {size:.3g} bits a weight, and {has}: a wrong unit or model?"
        if shape.total_params > MIXTURE * (shape.body_params + shape.head_params):
            byte = shape.weight_byte_by_format.get(weights.key, byte)
        return self._file_of(shape, weights, byte), weights.key, weights.bits_per_weight

    def _format_of(self, row: PublishedRow, byte: float | None, params: float) -> WeightFormat | str:
        """Return the row's weight format, a new one where the catalogue has none of that name; or an error.

        The bits without scales determine whether weights are unpacked; the bits with scales determine the bytes.
        """
        name, nominal = row.text["quant"], row.number.get("weight_bits")
        read = format_name(name, self.catalogue.weight_formats, nominal or row.number.get("bits_per_weight"))
        if read.contradiction:
            return f"{name} names formats of different bits, {read.contradiction}; give weight_bits to select one"
        if read.bits and nominal and not same_bits(read.bits, nominal):
            return f"{name} has {read.bits:g} bits a weight and weight_bits is {nominal:g}, expected the same"
        if read.key:
            return self.catalogue.weight_formats[read.key]
        bits = read.bits or nominal
        whole = read.bits_per_weight or (with_scales(bits) if bits else row.number.get("bits_per_weight"))
        whole = whole or (BIT_PER_BYTE * byte / params if byte else None)
        if whole is None or not LEAST_BIT <= whole <= MOST_BIT:
            bits_of = f"the bits (bits_per_weight) of {name}"
            return f"neither the bytes read per token (weight_stream_bytes) nor {bits_of} are known"
        return self._unique_format(described(name, bits or whole, whole))

    def _unique_format(self, made: WeightFormat) -> WeightFormat:
        """Return the new format of that name; the same name with other bits gets a key of its own."""
        taken = {**self.catalogue.weight_formats, **self.formats}.get(made.key)
        if taken is not None and not (
            taken.needs_unpacking == made.needs_unpacking and same_bits(taken.bits_per_weight, made.bits_per_weight)
        ):
            made = replace(made, key=f"{made.key}_{made.bits_per_weight:g}_bit")
        return self.formats.setdefault(made.key, made)

    def _file_of(self, shape: ModelShape, weights: WeightFormat, stated_byte: float | None) -> str:
        """Return the key of the model whose file in this format has the row's bytes, which is added where it is new."""
        byte = traffic.weight_byte(shape, weights) if stated_byte is None else stated_byte
        key: str = shape.key
        bare = replace(shape, max_context_tokens=ANY_CONTEXT, weight_byte_by_format={}, reference_format="")
        taken = self.models.get(key, bare).weight_byte_by_format.get(weights.key)
        if taken is not None and abs(taken / byte - 1.0) > 0.005:
            key = f"{shape.key}~{byte / 1e6:.0f}"
        held = self.models.get(key, replace(bare, key=key))
        self.models[key] = replace(held, weight_byte_by_format={**held.weight_byte_by_format, weights.key: byte})
        return key
