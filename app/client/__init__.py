"""The near end of the link: transports, the session over them, and the rings that hold the samples."""
