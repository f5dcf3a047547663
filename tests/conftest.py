"""What every test and process of a test needs: no screen for Qt, unless one is named; no haste on a busy machine."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # waiting threads must not spin while tests share the cores
os.environ.setdefault("TRILEMMA_AUTOTUNE", "0")  # nor kernels be timed anew by each process, as nothing is remembered
os.environ["TRILEMMA_RUNTIMES"] = os.devnull + ".none"  # not the ones of whoever runs the tests
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell that runs the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile(os.environ.get("TRILEMMA_EXAMPLES", "same"))

# a thread that found Qt's objects in the garbage would destroy them, and could hang: app/views/widgets/qt_garbage.py
gc.disable()
MUCH_GARBAGE = 100_000
TESTS = Path(__file__).parent

LONGEST = (
    "test_tooling.py",
    "app/cli/test_quality.py",
    "app/cli/test_measure.py",
    "app/cli/test_calibrate.py",
    "kernels/decoder/test_transformer.py",
    "kernels/native/test_generic.py",
)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory):
    """Keep what whoever runs the tests has measured, paired and set out of them, and theirs out of that."""
    folder = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TRILEMMA_DATA_DIR", raising=False)
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest: none of them is left to one process at the end."""
    longest = {TESTS / name for name in LONGEST}
    items.sort(key=lambda item: item.path not in longest)


def pytest_runtest_logfinish():
    """Look for garbage between tests, in the thread of Qt, and only there: a test may have switched it on."""
    gc.disable()
    if gc.get_count()[0] > MUCH_GARBAGE:
        gc.collect()
