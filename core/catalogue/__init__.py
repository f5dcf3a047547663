"""Records from files: the catalogue's TOML, the user's files, GGUF headers, and names as people write them.

`load` (the catalogue), `models`, `runtimes` and `energy` (parts of it), `inputs` (workloads, schedules, scenarios and
tables of the user), `schemas` (keys and ranges of TOML files), `toml_files` and `csv_rows` (strict readers),
`text_files` (files, pipes and devices up to a limit, and their text in any encoding), `refusal` (their sentence),
`calibration_file` (posteriors of published boards), `gguf_header` (a model file without its weights), `gguf_split` (a
set of such files), `gguf_layers` (their KV caches), `gguf_model` (the shape), `identify` (an attached board),
`shape_regression` (the shape of an unknown model from its size), `typical_rates` (vector rates where no source states
one), `memory_reserve` (what boards keep of their memory), `power_classes` (energy per byte of classes of boards),
`expression` (formulas that a file gives as text), `names` (boards, models, formats, runtimes and published factors by
any name).
Never here: predictions, measurements of the attached board.
"""
