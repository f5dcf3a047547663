"""Pictures of a widget as PNG or SVG, the data of a plot as text, and the menu that offers them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QBuffer, QIODevice, QPoint, QRect, QSize
from PySide6.QtGui import QGuiApplication, QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox, QWidget

from app.library.files import FileError, write_whole

DOT_PER_INCH = 96  # of a plot of its size on the screen


def image(widget: QWidget, scale: int = 1) -> QImage:
    """Return a picture of a widget as it is on the screen, with `scale` pixels for each of its own."""
    made = QImage(widget.size() * scale, QImage.Format.Format_ARGB32_Premultiplied)
    made.setDevicePixelRatio(scale)
    made.fill(widget.palette().window().color())
    painter = QPainter(made)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QWidget.render(widget, painter, QPoint())  # of the widget: a plot's own scales its scene
    painter.end()
    return made


def png(widget: QWidget, scale: int = 1) -> bytes:
    """Return the picture as a PNG file."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, b"png").write(image(widget, scale))
    return bytes(buffer.data().data())


def svg(widget: QWidget) -> bytes:
    """Return the picture as an SVG file, drawn in lines and texts."""
    buffer = QBuffer()
    made = QSvgGenerator()
    made.setOutputDevice(buffer)
    made.setSize(QSize(widget.width(), widget.height()))
    made.setViewBox(QRect(0, 0, widget.width(), widget.height()))
    made.setResolution(DOT_PER_INCH)
    made.setTitle(widget.accessibleName())
    painter = QPainter(made)
    QWidget.render(widget, painter, QPoint())  # of the widget: a plot's own scales its scene
    painter.end()
    return bytes(buffer.data().data())


def tsv(figure: Any) -> str:
    """Return the named series of a plot in view, tab-separated: series, position and value in the axes' SI units."""
    left, right = figure.box.viewRange()[0]
    lines = [f"series\t{figure.bottom.about}\t{figure.left.about}"]
    for name, item in figure.named.items():
        x, y = item.getOriginalDataset() if hasattr(item, "getOriginalDataset") else item.getData()
        if x is None or y is None or not item.isVisible():
            continue
        x, y = np.asarray(x, float)[: len(y)], np.asarray(y, float)
        seen = (x >= left) & (x <= right) & np.isfinite(y)
        lines += [f"{name}\t{a!r}\t{b!r}" for a, b in zip(x[seen].tolist(), y[seen].tolist(), strict=True)]
    return "\n".join(lines) + "\n"


def plot_menu(figure: Any) -> QMenu:
    """Return the menu of a plot; it goes when it is closed."""
    menu = QMenu(figure)
    menu.setObjectName(f"{figure.objectName()}.menu")
    menu.addAction("Save picture as PNG…", lambda: ask_save(figure, ".png", lambda: png(figure)))
    menu.addAction("Save picture 2× as PNG…", lambda: ask_save(figure, ".png", lambda: png(figure, 2)))
    menu.addAction("Save picture as SVG…", lambda: ask_save(figure, ".svg", lambda: svg(figure)))
    menu.addAction("Copy picture", lambda: QGuiApplication.clipboard().setImage(image(figure, 2)))
    menu.addAction("Copy data", lambda: QGuiApplication.clipboard().setText(tsv(figure)))
    menu.aboutToHide.connect(menu.deleteLater)
    return menu


def ask_save(widget: QWidget, suffix: str, content: Callable[[], bytes]) -> None:
    """Ask for a file and write the content to it."""
    title = "Save picture"
    suggested = f"{widget.objectName() or 'plot'}{suffix}"
    name, _ = QFileDialog.getSaveFileName(widget, title, suggested, f"*{suffix}")
    if not name:
        return
    path = Path(name) if Path(name).suffix else Path(name).with_suffix(suffix)
    try:
        write_whole(path, content())
    except FileError as error:
        QMessageBox.warning(widget, "The picture was not saved", str(error))
