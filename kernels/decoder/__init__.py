"""The decoder: model families, weights of a GGUF file, tokenizer, layers, kernel dispatch, timed decoding by stage."""
