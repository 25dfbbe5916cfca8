"""Arithmetic in claims: an expression such as `100 / (99 + cost)` over named numbers, and nothing else."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

from iopatterns.base.errors import IoPatternsError

_OPERATIONS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class FormulaError(IoPatternsError):
    """An expression holds something else than numbers, names, + - * / and parentheses."""


class Formula:
    """An expression, parsed: ``names`` are those in it, in alphabetical order; call it with their numbers."""

    def __init__(self, text: str) -> None:
        """Parse the expression. Raises FormulaError."""
        names: set[str] = set()
        try:
            self._body = ast.parse(text, mode="eval").body
            self._check(self._body, names, text)
        # the last two of what is nested or long beyond reason
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise FormulaError(f"'{text}' is no arithmetic expression such as 'read / (99 + write)'") from None
        self.names = sorted(names)

    def _check(self, node: ast.expr, names: set[str], text: str) -> None:
        match node:
            case ast.Constant(value=value) if _is_number(value):
                pass
            case ast.Name(id=name):
                names.add(name)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                self._check(left, names, text)
                self._check(right, names, text)
            case _:
                raise FormulaError(f"'{ast.unparse(node)}' in '{text}' is no number, name or + - * /")

    def __call__(self, numbers: Mapping[str, float]) -> float:
        """Return what the expression comes to. Raises ZeroDivisionError."""
        return self._value(self._body, numbers)

    def _value(self, node: ast.expr, numbers: Mapping[str, float]) -> float:
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name(id=name):
                return float(numbers[name])
            case ast.BinOp(left=left, op=op, right=right):
                return _OPERATIONS[type(op)](self._value(left, numbers), self._value(right, numbers))
        raise AssertionError(ast.dump(node))  # __init__ lets nothing else pass


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float holds
        return False
