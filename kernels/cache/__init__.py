"""KV caches: contiguous, paged, blocked, shared between processes; prompts kept between measurements."""
