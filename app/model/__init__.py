"""The mutable state of the dashboard, in Qt objects: store, undo commands, session control, recorder, settings.

One `store` holds all state and says which path changed; `conductor` owns the session with the board; `commands` are
undoable; `explained` is the verdict on its point; `sustained` its speed in the long run. Never here: painting, parsing
of files that the command line reads too (`app.library`).
"""
