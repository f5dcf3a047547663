"""Names as people write them: which board, model, weight format or runtime of the catalogue a name means."""
