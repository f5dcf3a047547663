"""What runs on the board: sensors, and the supervision of measured runs. Standard library only, Python 3.8."""
