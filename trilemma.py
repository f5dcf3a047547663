"""Start Trilemma: the same entry in a checkout, an editable install, a wheel and a frozen build."""

import os
import sys

_HERE = os.path.dirname(os.path.realpath(__file__))
_PRIVATE = os.path.join(_HERE, "trilemma_lib")  # only an installed wheel has it
sys.path.insert(0, _PRIVATE if os.path.isdir(_PRIVATE) else _HERE)


def main() -> int:
    """Run the command line of ``app``."""
    try:
        from app import stopping

        stopping.handle(stopping.end_at_once)  # before the imports that take time
        try:
            from app.cli import main as run

            return run()
        finally:
            stopping.ignore()
    except KeyboardInterrupt:
        print("trilemma: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
