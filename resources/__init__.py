"""Data files: boards, models, runtimes, formats, presets and published measurements, each number with its source."""
