"""What every test needs: Qt without a screen, unless one is named; no deadline where the machine may be busy."""

import os

from hypothesis import settings

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["TRILEMMA_RUNTIMES"] = os.devnull + ".none"  # not the ones of whoever runs the tests
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
