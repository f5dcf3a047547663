"""Rows of the lab on memories: hierarchy (A03), mix of levels (A04), banks (A11), KV regions (A14)."""

from __future__ import annotations

import numpy as np

from app.text.format import quantity_text
from app.text.lab.item import Found, Input, Lab, Output, Values
from core.articles import banks, hierarchy
from core.articles.as_printed import article_a
from core.spec import Provenance

_NS, _GB_S, _KIB, _GIB = 1e-9, 1e9, 1024.0, 2.0**30


def _a03(v: Values) -> Found:
    latency_s = v["latency_s"]
    bus = float(hierarchy.bus_bandwidth_byte_s(v["transfers_per_s"], int(v["channels"]), int(v["channel_width_bit"])))
    core = float(hierarchy.core_bandwidth_byte_s(v["open_misses"], latency_s, int(v["line_byte"])))
    in_flight = float(hierarchy.bytes_in_flight(bus, latency_s))
    return {
        "bus_byte_s": bus,
        "in_flight_byte": in_flight,
        "lines": in_flight / v["line_byte"],
        "core_byte_s": core,
        "reached_byte_s": min(bus, core),
        "row_miss_s": v["trcd_s"] + v["tcl_s"] + v["trp_s"],
    }


def _a03_words(v: Values, f: Found) -> str:
    bus, core, lines = float(f["bus_byte_s"]), float(f["core_byte_s"]), float(f["lines"])
    peak, reached = quantity_text(bus, "byte/s"), quantity_text(min(core, bus), "byte/s")
    if core >= bus:
        return f"{v['open_misses']:.0f} open misses keep the bus at its peak of {peak}; {lines:.0f} lines are enough."
    share = quantity_text(core / bus, "frac", 2)
    return (
        f"{v['open_misses']:.0f} open misses reach {reached}, {share} of the bus's {peak}; the peak needs "
        f"{np.ceil(lines):.0f} lines in flight."
    )


A03 = Lab(
    "A03",
    "Memory hierarchy: bus peak and bytes in flight",
    (
        Input("channels", "Channels", 8, "1", 1, 64, (1, 16), whole=True),
        Input("channel-width", "Width of a channel", 16, "bit", 1, 1024, (8, 64), "assumed", whole=True),
        Input("transfers", "Transfers", 8.533e9, "1/s", 1e6, 1e12, (1.6e9, 1.28e10), "assumed"),
        Input("latency", "Latency", 40 * _NS, "s", 0.1 * _NS, 1e-3, (10 * _NS, 200 * _NS)),
        Input("open-misses", "Open misses", 32, "1", 1, 1e5, (1, 256), "assumed", whole=True),
        Input("line", "Cache line", 64, "byte", 8, 4096, (32, 256), "assumed", whole=True),
        Input("trcd", "tRCD", 18 * _NS, "s", 0.0, 1e-3, (5 * _NS, 30 * _NS), "assumed"),
        Input("tcl", "tCL", 17 * _NS, "s", 0.0, 1e-3, (5 * _NS, 30 * _NS), "assumed"),
        Input("trp", "tRP", 18 * _NS, "s", 0.0, 1e-3, (5 * _NS, 30 * _NS), "assumed"),
    ),
    (
        Output("bus_byte_s", "Peak of the bus", "byte/s"),
        Output("core_byte_s", "Limit of the open misses", "byte/s"),
        Output("reached_byte_s", "Bandwidth reached", "byte/s"),
        Output("in_flight_byte", "Bytes in flight for the peak", "byte"),
        Output("lines", "Lines in flight for the peak"),
        Output("row_miss_s", "Time of a row miss, tRCD + tCL + tRP", "s"),
    ),
    _a03,
    _a03_words,
    "latency_s",
    ("bus_byte_s", "reached_byte_s"),
)


def _a04(v: Values) -> Found:
    hit, middle = v["hit_rate"], v["middle_share"]
    if hit + middle > 1.0 + 1e-12:
        raise ValueError(
            f"Hit rate and middle share: got {hit:.4g} and {middle:.4g}, expected a sum of at most 1: they are shares "
            "of the same bytes"
        )
    share = np.array([hit, middle, max(0.0, 1.0 - hit - middle)])
    levels = np.array([v["fast_byte_s"], v["middle_byte_s"], v["slow_byte_s"]])
    share, levels = (share, levels) if middle else (share[[0, 2]], levels[[0, 2]])
    share = share / share.sum()
    return {
        "serial_byte_s": float(hierarchy.serial_bandwidth_byte_s(share, levels)),
        "filled_byte_s": float(hierarchy.filled_bandwidth_byte_s(share, levels)),
        "overlapped_byte_s": float(hierarchy.overlapped_bandwidth_byte_s(share, levels)),
        "published_byte_s": float(share @ levels)
        if middle
        else article_a.mixed_bandwidth(levels[0] / _GB_S, levels[1] / _GB_S, hit) * _GB_S,
    }


def _a04_words(v: Values, f: Found) -> str:
    serial, mean = float(f["serial_byte_s"]), float(f["published_byte_s"])
    return (
        f"With {v['hit_rate']:.3g} of the bytes from the fast level the mix moves {quantity_text(serial, 'byte/s')}; "
        f"the mean of the rates, as published, is {mean / serial:.2f} times that."
    )


_SHARE = (0.0, 1.0)
_RATES = (10 * _GB_S, 2000 * _GB_S)
A04 = Lab(
    "A04",
    "Bandwidth of a mix of on-chip SRAM and DRAM",
    (
        Input("fast", "Fast level", 768 * _GB_S, "byte/s", 1e6, 1e15, _RATES),
        Input("slow", "Slow level", 176 * _GB_S, "byte/s", 1e6, 1e15, _RATES),
        Input("hit-rate", "Hit rate", 0.82, "1", 0.0, 1.0, _SHARE),
        Input("middle", "Middle level", 400 * _GB_S, "byte/s", 1e6, 1e15, _RATES, "assumed"),
        Input("middle-share", "Middle share", 0.0, "1", 0.0, 1.0, _SHARE, "assumed"),
    ),
    (
        Output("serial_byte_s", "One level after the other", "byte/s"),
        Output("filled_byte_s", "A miss fills the faster levels", "byte/s"),
        Output("overlapped_byte_s", "All levels at once", "byte/s"),
        Output("published_byte_s", "Mean of the rates", "byte/s", Provenance.AS_PUBLISHED),
    ),
    _a04,
    _a04_words,
    "hit_rate",
    ("serial_byte_s", "filled_byte_s", "overlapped_byte_s", "published_byte_s"),
)


def _a11(v: Values) -> Found:
    if v["banks"] != 2 ** round(np.log2(v["banks"])):
        raise ValueError(f"Banks: got {v['banks']:.0f}, expected a power of 2")
    n, granule = int(v["banks"]), int(v["granule_byte"])
    start, block = int(v["start_byte"]), int(v["block_byte"])
    addresses = start + np.arange(int(v["accesses"])) * int(v["stride_byte"])
    loads = banks.bank_loads(start, block, n, granule)
    return {
        "block_banks": float(np.count_nonzero(loads)),
        "balance": float(banks.balance(loads)),
        "fill": float(banks.aligned_fill(block, granule)),
        "stride_banks": float(np.unique(banks.bank_of(addresses, n, granule)).size),
        "hashed_banks": float(np.unique(banks.hashed_bank_of(addresses, n, granule)).size),
    }


def _a11_words(v: Values, f: Found) -> str:
    n, plain, hashed = v["banks"], float(f["stride_banks"]), float(f["hashed_banks"])
    return (
        f"The block lies in {f['block_banks']:.0f} of {n:.0f} banks. {v['accesses']:.0f} accesses at this stride visit "
        f"{plain:.0f}, {hashed:.0f} with the next address bits folded in."
    )


A11 = Lab(
    "A11",
    "Interleaving of memory banks",
    (
        Input("banks", "Banks", 8, "1", 1, 1024, (1, 64), whole=True),
        Input("granule", "Granule", 4 * _KIB, "byte", 64, 2**26, (256, 65536), whole=True),
        Input("start", "Address", 0, "byte", 0, 2**48, (0, 65536), "assumed", whole=True),
        Input("block", "Block", 16 * _KIB, "byte", 1, 2**26, (4096, 65536), whole=True, step=4096),
        Input("stride", "Stride", 32 * _KIB, "byte", 1, 2**30, (4096, 65536), "assumed", whole=True, step=4096),
        Input("accesses", "Accesses", 8, "1", 1, 65536, (1, 64), "assumed", whole=True),
    ),
    (
        Output("block_banks", "Banks that the block touches"),
        Output("balance", "Balance of the block, mean / largest load"),
        Output("fill", "Share of its aligned region that the block fills", "frac"),
        Output("stride_banks", "Banks visited at the stride"),
        Output("hashed_banks", "Banks visited with hashed addresses"),
    ),
    _a11,
    _a11_words,
    "stride_byte",
    ("stride_banks", "hashed_banks"),
)


def _a14(v: Values) -> Found:
    token, n = v["token_byte"], v["tokens"]
    if v["region_byte"] < banks.TAG_BYTE:
        raise ValueError(f"Region: got {v['region_byte']:g} B, expected at least {banks.TAG_BYTE} B for its tag")
    stride = float(banks.layer_stride_byte(n, token))
    return {
        "capacity": float(banks.layer_capacity_tokens(v["region_byte"], token)),
        "stride_byte": stride,
        "pages": stride / banks.PAGE_BYTE,
        "total_byte": stride * v["layers"],
    }


def _a14_words(v: Values, f: Found) -> str:
    n, capacity = v["tokens"], float(f["capacity"])
    fits = "holds" if capacity >= n else "does not hold"
    return (
        f"A region of {quantity_text(v['region_byte'], 'byte')} {fits} {n:.0f} tokens of a layer: it has room for "
        f"{capacity:.0f}. All layers need {quantity_text(float(f['total_byte']), 'byte')} in whole pages."
    )


A14 = Lab(
    "A14",
    "KV buffer shared across layers: room of a region",
    (
        Input("region", "Region of a layer", article_a.KV_REGION_BYTE, "byte", 1, 2**40, (65536, _GIB)),
        Input("token", "Token in a layer", 4096, "byte", 1, 2**24, (256, 16384), "assumed"),
        Input("tokens", "Tokens", 2048, "tokens", 1, 1e7, (1, 32768), "assumed", whole=True),
        Input("layers", "Layers", 32, "1", 1, 1000, (1, 80), "assumed", whole=True),
    ),
    (
        Output("capacity", "Room of the region", "tokens"),
        Output("stride_byte", "Distance between layers", "byte"),
        Output("pages", "Pages of 64 KiB a layer"),
        Output("total_byte", "All layers", "byte"),
    ),
    _a14,
    _a14_words,
    "tokens",
    ("stride_byte",),
)
