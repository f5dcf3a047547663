"""`agent serve`: the agent behind a socket, its secrets, limits on unauthenticated connections, and metrics."""
