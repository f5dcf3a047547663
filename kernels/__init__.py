"""The measured run on torch: linear layers, attention, KV cache, decoder, and what is measured with them."""
