"""What every test needs: Qt without a screen, unless one is named."""

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
