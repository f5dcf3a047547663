"""The part that runs on the board: sensors and supervised measured runs. Standard library only, Python 3.8."""
