"""A campaign: a list of points measured in rounds. No Qt.

`plan` (rounds and their runs, those of a calibration), `campaign` (a state machine: the next run, what an interrupted
campaign need not repeat), `recipe` (the measurement that a result is), `journal` (the file by which the same campaign
goes on), `blocking` (the driver of the command line; the dashboard's is `app.model.conductor`). Only `blocking` knows
an attached board. Never here: Qt, printing.
"""
