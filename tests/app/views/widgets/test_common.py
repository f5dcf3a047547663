"""Labels."""

from PySide6.QtWidgets import QLabel

from app.views.widgets.common import label


def test_no_line_of_a_wrapped_label_ends_between_a_number_and_its_unit(qtbot):
    made = label("at most 53 °C", wrap=True)
    qtbot.addWidget(made)
    assert QLabel.text(made) == "at most 53\u00a0°C"
    made.setText("up to 24 %")
    assert QLabel.text(made) == "up to 24\u00a0%"
    assert made.text() == "up to 24 %"  # as it was given, for those who compare
