"""A simulated board: the engine with heat, throttling, battery and noise, behind the protocol of a real agent."""
