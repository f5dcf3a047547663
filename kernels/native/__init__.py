"""An optional C library for what torch leaves lying: built at first use where a compiler is found, and done without
where there is none.
"""
