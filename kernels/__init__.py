"""The measured run on torch: a Llama-family decoder with a pruned, quantised KV cache, and its accuracy.

`workload` (an operating point in, measured values out) and `point` (what it needs of one) stand here. `decoder`
(layers, weights, tokenizer), `attention`, `cache`, `eviction` (policies and re-selection), `accuracy` (perplexity, KL,
retrieval), `passes` (activation pruning, drift compensation), `machine` (bandwidth, timing), `native` (the C library),
`bench`. Never here: Qt, predictions, files of the user other than the model.
"""
