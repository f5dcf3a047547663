"""Where the tests find the repository and their data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
GOLDEN = DATA / "golden"
RESOURCES = ROOT / "resources"
