"""Records of boards, on disk and in memory: data sheets, measurements, imports, presets of points. No Qt.

`board_library` is the entry: the records of boards, and the catalogue and posterior that follow from them. Behind it:
`board_document` (one JSON file a machine), `measurements` (the append-only file), `registry` (boards attached before),
`data_sheet`, `bandwidth`, `machine` (identity and abilities of an attached board), `calibration` (the fit), `imported`,
`imports` (output of other programs), `table_points`, `other_boards`, `recorded` (measurements made elsewhere), `files`
(atomic writes, one writer at a time), `locks`, `schema` (checks of JSON), `records` and `axes` (the operating point as
JSON and as text), `tables` and `channel_stats` (export), `presets`, `attention`, `prediction_curves`,
`endurance`, `timelines`, `limits`, `power_step` (of a recording, for a thermal fit). The dashboard and the command line
use this package; it imports neither. Not here: Qt, sessions, widgets.
"""
