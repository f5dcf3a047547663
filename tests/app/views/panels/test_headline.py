"""The headline's reasons."""

from app.views.panels.headline import why_html


def test_why_shows_parts_changes_and_the_mark(store):
    html = why_html(store)
    for words in ("Where the time goes", "What one change would do", "What each slider does", "r_max"):
        assert words in html
