"""Article A: memory levels, banks and KV regions (A03, A04, A11, A14)."""

from __future__ import annotations

import numpy as np

from core.articles import banks, hierarchy
from core.articles.a_speed import kv_byte
from core.articles.as_printed import article_a as printed
from core.articles.item import Item, Value
from core.catalogue.load import load_catalogue


def a03() -> Item:
    """Memory hierarchy table."""
    physical: dict[str, Value] = {
        "little_bytes(128GB/s,40ns)": float(hierarchy.bytes_in_flight(128e9, 40e-9)),
        "little_bytes(208GB/s,65ns)": float(hierarchy.bytes_in_flight(208e9, 65e-9)),
        "little_lines64(128GB/s,40ns)": float(hierarchy.bytes_in_flight(128e9, 40e-9)) / hierarchy.LINE_BYTE,
    }
    for rate, bit in ((8533, 16), (9600, 16), (10667, 16), (6400, 32), (8533, 32)):
        name = f"lpddr5x_8ch_GBs(MT/s={rate},bits/ch={bit})"
        physical[name] = float(hierarchy.bus_bandwidth_byte_s(rate * 1e6, 8, bit)) / 1e9
    fastest = printed.MEMORY_LEVELS["8-channel LPDDR5X"][1][1]
    needed = fastest * 1e9 / float(hierarchy.bus_bandwidth_byte_s(1e6, 8, 16))
    return Item(
        "A03",
        "Latency and bandwidth of SRAM and LPDDR5X",
        "208 GB/s needs a 256-bit bus, or 13 000 MT/s on eight 16-bit channels. A core reaches the bus peak only if it "
        "keeps bandwidth times latency in flight.",
        printed={
            name: [list(latency), list(bandwidth)] for name, (latency, bandwidth) in printed.MEMORY_LEVELS.items()
        },
        physical=physical,
        checks={"MTs_needed_for_208GBs_8x16": needed},
    )


def a04() -> Item:
    """SRAM/DRAM mix."""
    levels, hit = (768.0, 176.0), 0.82
    share = (hit, 1 - hit)
    serial = float(hierarchy.serial_bandwidth_byte_s(share, levels))
    arithmetic = printed.mixed_bandwidth(*levels, hit)
    # a miss that fills the fast level while the slow one streams keeps the fast level busy with every byte
    overlapped_fill = 1.0 / max(1.0 / levels[0], share[1] / levels[1])
    return Item(
        "A04",
        "Bandwidth of a mix of SRAM and DRAM",
        "The printed 682.9 GB/s is not what the code gives, 661.4. A hit rate of bytes averages times, not rates: "
        "478.4 GB/s.",
        printed={"GB_s(768,176,0.82)": printed.MIX_PRINTED_GB_S},
        as_written={"arithmetic": arithmetic},
        physical={
            "harmonic_serial": serial,
            "fill_through_sram": float(hierarchy.filled_bandwidth_byte_s(share, levels)),
            "overlapped_max": float(hierarchy.overlapped_bandwidth_byte_s(share, levels)),
            "fill_overlapped": overlapped_fill,
            "harmonic(h=0)": float(hierarchy.serial_bandwidth_byte_s((0.0, 1.0), levels)),
            "harmonic(h=1)": float(hierarchy.serial_bandwidth_byte_s((1.0, 0.0), levels)),
        },
        checks={
            "hit_rate_that_prints_682.9": (printed.MIX_PRINTED_GB_S - levels[1]) / (levels[0] - levels[1]),
            "arith_over_harmonic": arithmetic / serial,
            "worst_over_estimate(h=0.5)": float(hierarchy.worst_over_estimate(levels[0] / levels[1])),
        },
    )


def a11() -> Item:
    """Bank interleaving."""
    kib = 1024
    written: dict[str, Value] = {
        f"bank_id({hex(a)})": printed.bank_id(a) for a in (0, 0xFFF, 0x1000, 0x7FFF, 0x8000, 0x12345)
    }
    for size in (16, 64):
        for name, bit in (("int4", 4), ("int8", 8), ("fp16", 16)):
            n_byte = size * size * bit / 8
            written[f"block_bytes({size}x{size},{name})"] = n_byte
            written[f"aligned_fill({size}x{size},{name})"] = float(banks.aligned_fill(n_byte))
    physical: dict[str, Value] = {
        f"distinct_banks(stride={s})": int(banks.distinct_banks(s)) for s in (4096, 8192, 12288, 16384, 32768)
    }
    addresses = [i * 32768 for i in range(8)]
    tabled = np.zeros(8)
    tabled[:2] = 32 * kib, 16 * kib
    return Item(
        "A11",
        "Interleaving of memory banks",
        "A contiguous 16 KiB block lies in four banks and cannot be placed in one; aligning small blocks wastes most "
        "of each granule; the printed load ratios have no definition.",
        printed={"load_ratio": list(printed.BANK_LOAD_RATIO)},
        as_written=written,
        physical={
            **physical,
            "xor_banks(stride=32768,8 accesses)": len({banks.hashed_bank_of(a) for a in addresses}),
            "plain_banks(stride=32768,8 accesses)": len({banks.bank_of(a) for a in addresses}),
            "balance_mean_over_max(B0=32KB,B1=16KB as tabled)": banks.balance(tabled),
            "balance_contiguous_48KB": banks.balance(banks.bank_loads(0, 48 * kib)),
        },
        checks={
            "banks_touched_by_16KB": int(np.count_nonzero(banks.bank_loads(0, 16 * kib))),
            "banks_touched_by_32KB": int(np.count_nonzero(banks.bank_loads(0, 32 * kib))),
            "bank_of_B1_if_after_B0": printed.bank_id(32 * kib),
        },
    )


def a14() -> Item:
    """Cross-layer shared KV buffer."""
    models = load_catalogue().models
    llama3, llama2, qwen = (kv_byte(models[key]) for key in ("llama-3-8b", "llama-2-7b", "qwen2-1.5b"))
    region = printed.KV_REGION_BYTE
    stride = float(banks.layer_stride_byte(2048, llama3 / 32))
    return Item(
        "A14",
        "KV buffer shared across layers",
        "256 KiB a layer hold 63 tokens of Llama-3-8B. The listing reads layer 0 at every layer, which shares KV "
        "between layers and changes the model; a reader needs a sequence lock.",
        as_written={
            "tokens_per_layer(llama3_8b fp16,tag=64B)": float(banks.layer_capacity_tokens(region, llama3 / 32)),
            "tokens_per_layer(llama2_7b fp16,tag=64B)": float(banks.layer_capacity_tokens(region, llama2 / 32)),
            "tokens_per_layer(qwen2_1.5b fp16,tag=64B)": float(banks.layer_capacity_tokens(region, qwen / 28)),
            "tokens_per_layer(qwen2_1.5b int4,tag=64B)": float(banks.layer_capacity_tokens(region, qwen / 28 / 4)),
            "addr(layer=1,off=0x1000)": printed.layer_address(1, 0x1000),
        },
        physical={
            "stride_needed(llama3_8b,n=2048)": stride,
            "pages64K(llama3_8b,n=2048)": stride // banks.PAGE_BYTE,
        },
        checks={
            "asm_layer1_address": printed.listed_layer_address(1, 0x1000),
            "align64K_of_stride": region % banks.PAGE_BYTE,
        },
    )


ITEMS = {"A03": a03, "A04": a04, "A11": a11, "A14": a14}
