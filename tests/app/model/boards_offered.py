"""A conductor that attaches nothing."""

from app.model.boards import Boards
from app.model.settings import Settings


class FakeConductor:
    def __init__(self):
        self.log = []

    def attach(self, make_session, name, target=""):
        self.log.append(name)

    def detach(self):
        self.log.append("detached")


def offered(folder):
    """Boards of an ssh configuration of hosts by name, by pattern and in a file of its own."""
    config = folder / "config"
    config.write_text("Host orin rpi5\n  User pi\nHost *\nHost !no deny?\nInclude more/*.conf\n")
    (folder / "more").mkdir()
    (folder / "more" / "lab.conf").write_text("host=rk3588\n")
    return Boards(FakeConductor(), Settings(), config)
