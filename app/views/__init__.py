"""Everything visible. `panels` (one panel a file) read the store and push commands; `widgets` are their parts.

Here: `main_window`, `centre` (the tabs), `docks`, `actions` (every command of the menus), `advice` (the headline).
Never here: sessions, the engine, files.
"""
