"""Formulas that a file gives as text: arithmetic of named numbers, read as a tree and never run as a program."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

_LONGEST = 300
_BINARY: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
_SIGNS: Mapping[type, Callable[[float], float]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
    "ceil": math.ceil,
}
_EXPECTED = f"numbers, names, + - * / **, brackets and {', '.join(_FUNCTIONS)}"


class Expression:
    """A formula read from text.

    Raises
    ------
    ValueError
        One sentence: the text is longer than 300 characters, or holds something else than arithmetic.

    Examples
    --------
    >>> made = Expression("max(byte / bandwidth_byte_s, flop / compute_op_s) * (1 + gamma * load_frac)")
    >>> made.names
    ('bandwidth_byte_s', 'byte', 'compute_op_s', 'flop', 'gamma', 'load_frac')
    >>> Expression("2 * a ** 2")({"a": 3.0})
    18.0
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > _LONGEST:
            raise ValueError(f"got {len(text)} characters, expected at most {_LONGEST}")
        try:
            self._tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"got {text!r}, expected {_EXPECTED}") from None
        names = set[str]()
        self._check(self._tree, names)
        self.names = tuple(sorted(names))

    def _check(self, node: ast.AST, names: set[str]) -> None:
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            parts: list[ast.expr] = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
            parts = [node.operand]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            many = node.func.id in ("min", "max")
            if node.keywords or (len(node.args) < 2 if many else len(node.args) != 1):
                wanted = "2 or more numbers" if many else "one number"
                raise ValueError(f"got {ast.unparse(node)!r}, expected {node.func.id} of {wanted}")
            parts = node.args
        elif isinstance(node, ast.Name) and node.id not in _FUNCTIONS:
            names.add(node.id)
            return
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return
        else:
            raise ValueError(f"got {ast.unparse(node)[:80]!r}, expected {_EXPECTED}")
        for part in parts:
            self._check(part, names)

    def __call__(self, values: Mapping[str, float]) -> float:
        """Return the value of the formula.

        Raises
        ------
        ValueError
            One sentence: it has no finite value for these numbers.
        """
        try:
            found = float(self._value(self._tree, values))
        except (ArithmeticError, ValueError):
            found = math.nan
        if not math.isfinite(found):
            given = ", ".join(f"{name} = {values[name]:g}" for name in self.names)
            raise ValueError(f"{self.text} has no finite value for {given or 'its numbers'}")
        return found

    def _value(self, node: ast.AST, values: Mapping[str, float]) -> float:
        if isinstance(node, ast.BinOp):
            return _BINARY[type(node.op)](self._value(node.left, values), self._value(node.right, values))
        if isinstance(node, ast.UnaryOp):
            return _SIGNS[type(node.op)](self._value(node.operand, values))
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            return _FUNCTIONS[node.func.id](*(self._value(part, values) for part in node.args))
        if isinstance(node, ast.Name):
            return float(values[node.id])
        assert isinstance(node, ast.Constant)
        return float(node.value)  # type: ignore[arg-type]
