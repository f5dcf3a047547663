"""The build backend: poetry-core's, with the agent's zipapp ready-made in the wheel: everywhere the same bytes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from poetry.core.masonry import api

ROOT = Path(__file__).resolve().parents[1]

build_editable = api.build_editable
build_sdist = api.build_sdist
get_requires_for_build_editable = api.get_requires_for_build_editable
get_requires_for_build_sdist = api.get_requires_for_build_sdist
get_requires_for_build_wheel = api.get_requires_for_build_wheel
prepare_metadata_for_build_editable = api.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = api.prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel with the zipapp in it."""
    with _agent_embedded():
        return str(api.build_wheel(wheel_directory, config_settings, metadata_directory))


@contextmanager
def _agent_embedded() -> Iterator[None]:
    """Have the zipapp among the resources while the wheel is built; a checkout always builds its own."""
    sys.path.insert(0, str(ROOT))
    try:
        from app.client.agent_file import EMBEDDED, build_agent
    finally:
        sys.path.remove(str(ROOT))
    beside = EMBEDDED.with_suffix(".new")
    beside.write_bytes(build_agent())
    beside.replace(EMBEDDED)
    try:
        yield
    finally:
        EMBEDDED.unlink(missing_ok=True)
