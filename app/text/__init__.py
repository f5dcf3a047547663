"""Words for numbers, states and charts, shared by the dashboard and the command line. No Qt.

`format` (quantities with units, both ways), `notation` (characters and words that people write them with),
`quantities` (names of outputs), `names` (short labels), `state_text` (the state of a board), `explain` (the verdict on
a point), `chart` and `bar` (charts as plain data), `energy_data` and `schedule_data` (content of two views),
`published` (published figures of a board), `settings_files` (settings of other runtimes). Never here: widgets, colours,
files.
"""
