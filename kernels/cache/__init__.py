"""KV caches: contiguous, paged, in layouts to compare; prompts kept between measurements."""
