"""The first code of the agent's zipapp, stored in it as ``__main__.py``: checks Python, then starts `app.agent.entry`.

The archive is a file (``python3 trilemma-agent.pyz``), or bytes in the global ``ARCHIVE`` that came over the link: then
its modules are imported from memory, for on an attached board nothing is written. The syntax is that of Python 3.0, so
that an old one can say in a sentence that it is old.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FLOOR = (3, 8)
OLD_PYTHON_STATUS = 79


class MemoryImporter:
    """Finds and loads the modules of a zip archive that is held in memory.

    Attributes
    ----------
    data
        The archive's bytes.
    """

    def __init__(self, data: "bytes") -> "None":
        import io
        import zipfile
        from importlib.machinery import ModuleSpec  # before it is in the way of imports itself

        self.data = data
        self._make_spec = ModuleSpec
        self._zip = zipfile.ZipFile(io.BytesIO(data))
        self._names = frozenset(self._zip.namelist())

    def find_spec(self, name: "str", path: "object" = None, target: "object" = None) -> "ModuleSpec | None":
        """Return the spec of a module in the archive, None for any other."""
        inner, is_package = self._inside(name)
        if not inner:
            return None
        origin = "trilemma-agent.pyz/" + inner
        spec = self._make_spec(name, self, origin=origin, is_package=is_package)  # type: ignore[arg-type]
        spec.has_location = True
        return spec

    def create_module(self, spec: "ModuleSpec") -> "None":
        """Leave it to the import system."""
        return None

    def exec_module(self, module: "ModuleType") -> "None":
        """Run the module's source."""
        code = compile(self.get_source(module.__name__), str(module.__file__), "exec", dont_inherit=True)
        exec(code, module.__dict__)

    def get_source(self, name: "str") -> "str":
        """Return the source of a module, for tracebacks too."""
        return self._zip.read(self._inside(name)[0]).decode("utf-8")

    def _inside(self, name: "str") -> "tuple[str, bool]":
        base = name.replace(".", "/")
        for inner, is_package in ((base + "/__init__.py", True), (base + ".py", False)):
            if inner in self._names:
                return inner, is_package
        return "", False


def start() -> "int":
    """Start the agent with the words of the command line; return its exit status."""
    if sys.version_info < FLOOR:
        versions = tuple(sys.version_info[:3]) + FLOOR
        sys.stderr.write("trilemma: Python is %d.%d.%d here: expected %d.%d or newer\n" % versions)
        return OLD_PYTHON_STATUS
    archive = globals().get("ARCHIVE")
    if archive is not None:
        sys.meta_path.insert(0, MemoryImporter(archive))
    from app.agent.entry import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())
