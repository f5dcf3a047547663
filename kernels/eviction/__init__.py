"""KV eviction: token scores, policies, pruning of a prompt's cache, re-selection while decoding."""
