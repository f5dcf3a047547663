"""Qualcomm Genie: the configuration of a dialog on a Hexagon NPU, for ``genie-t2t-run -c FILE``."""

from __future__ import annotations

from typing import Any

from app.text.settings_files.written import Written, json_text
from core.spec import Catalogue, OperatingPoint


def config(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the dialog that runs the point as nearly as Genie can: formats and graphs are in the context binary."""
    model = catalogue.models[point.model]
    binary = "it is compiled into the context binary that ctx-bins names"
    context = {"version": 1, "size": int(point.context_tokens), "n-vocab": model.vocab_size}
    htp = {
        "version": 1,
        "use-mmap": True,
        "spill-fill-bufsize": 0,
        "mmap-budget": 0,
        "poll": True,
        "cpu-mask": "0xe0",
        "kv-dim": model.head_dim,
    }
    dialog: dict[str, Any] = {
        "version": 1,
        "type": "basic",
        "context": context,
        "sampler": {"version": 1, "seed": 42, "temp": 1.0, "top-k": 1, "top-p": 1.0},
        "tokenizer": {"version": 1, "path": "tokenizer.json"},
        "engine": {
            "version": 1,
            "n-threads": 3,
            "backend": {
                "version": 1,
                "type": "QnnHtp",
                "QnnHtp": htp,
                "extensions": "htp_backend_ext_config.json",
            },
            "model": {
                "version": 1,
                "type": "binary",
                "binary": {"version": 1, "ctx-bins": [f"{point.model}-{point.weights}.bin"]},
            },
        },
    }
    of_tokens = "bos-token, eos-token and the positional-encoding of the model are to be added to it"
    missing = {"weights": binary, "kv": binary, "context_tokens": of_tokens}
    return Written(json_text({"dialog": dialog}), missing)
