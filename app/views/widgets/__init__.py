"""Parts of panels: plots, cards, fields, sliders, marks, theme. None knows the session or the engine."""
