"""Attention: one token over the cache (`cached`), a prompt (`prefill`), windows and soft caps, statistics per head."""
