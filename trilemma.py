"""Start Trilemma: the same entry in a checkout, an editable install, a wheel and a frozen build."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PRIVATE = _HERE / "trilemma_lib"  # only an installed wheel has it
sys.path.insert(0, str(_PRIVATE if _PRIVATE.is_dir() else _HERE))


def main() -> int:
    """Run the command line of ``app``."""
    try:
        from app.cli import main as run

        return run()
    except KeyboardInterrupt:  # before the command has begun
        print("trilemma: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
