"""Every command of the dashboard: one QAction each, in the menus that show them. The palette lists the same ones."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QActionGroup, QKeySequence

from app.views.widgets.theme import CHOICES

ALSO = "also_called"
"""Property of a command: other names that the palette finds it by."""
_ALSO_CALLED = {
    "export.runtime": "llama-server llama.cpp Ollama Modelfile vLLM TensorRT-LLM MLC RKLLM RKNN QNN Genie CANN MindIE",
    "energy": "SITSEnergy",
    "lab": "Edge-LoRA QK-Dispatch A03 A04 A06 A07 A08 A11 A14 B02 B12 B15 B16",
    "schedule": "RT-LLM Scheduler LLMCompiler",
    "calibrate": "SITS-Calib",
    "stages": "QK-Dispatch",
}

Slot = Callable[[], object]


class Actions(QObject):
    """The commands by key, in order, grouped by menu."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.menus: dict[str, list[QAction | None]] = {}
        self._by_key: dict[str, QAction] = {}

    def __getitem__(self, key: str) -> QAction:
        return self._by_key[key]

    def all(self) -> list[QAction]:
        """Return all commands, menu by menu."""
        return [action for actions in self.menus.values() for action in actions if action is not None]

    def add(self, menu: str, key: str, text: str, slot: Slot, keys: str = "", tip: str = "") -> QAction:
        """Make a command in a menu. `keys` are shortcuts separated by ``; ``."""
        action = QAction(text, self)
        action.setObjectName(key)
        action.setToolTip(tip or text.replace("&", "").removesuffix("…"))
        if keys:
            action.setShortcuts([QKeySequence(part) for part in keys.split("; ")])
        action.triggered.connect(lambda _checked=False: slot())
        self.put(menu, key, action)
        return action

    def put(self, menu: str, key: str, action: QAction) -> None:
        """Take in a command made elsewhere."""
        action.setProperty(ALSO, _ALSO_CALLED.get(key, ""))
        self._by_key[key] = action
        self.menus.setdefault(menu, []).append(action)

    def separate(self, menu: str) -> None:
        """Put a line between the commands before and after."""
        self.menus[menu].append(None)

    def add_themes(self, menu: str, current: str, choose: Callable[[str], object]) -> None:
        """Make the three commands that choose the theme, one of them checked."""
        group = QActionGroup(self)
        for choice in CHOICES:
            text = "Theme: &follow the system" if choice == "system" else f"Theme: &{choice}"
            action = self.add(menu, f"theme.{choice}", text, lambda c=choice: choose(c))  # type: ignore[misc]
            action.setCheckable(True)
            action.setChecked(choice == current)
            group.addAction(action)
