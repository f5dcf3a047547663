"""Known facts about boards, on disk and in memory: data sheets, measurements, imports, presets of points. No Qt.

`files` (where documents live, atomic writes), `schema` (checks of JSON), `records` and `axes` (the operating point as
JSON and as text), `measurements` (the append-only file), `registry` (boards attached before), `data_sheet`,
`bandwidth`, `bench`, `beta` (documents of a machine), `machine` (identity and abilities of an attached board),
`calibration` (posterior of a machine), `imported`, `table_points`, `other_boards`, `recorded` (measurements made
elsewhere), `tables` and `channel_stats` (export), `attention`, `prediction_basis`, `prediction_curves`, `endurance`,
`timelines`, `limits`, `power_step` (of a recording, for a thermal fit). The dashboard and the command line ask this
room; it never asks them. Never here: Qt, sessions, widgets.
"""
