"""KV caches: contiguous, paged, blocked; prompts kept between measurements."""
