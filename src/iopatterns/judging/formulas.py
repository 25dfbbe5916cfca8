"""Parse and evaluate arithmetic expressions over named numbers.

An example is ``100 / (99 + cost)``.
"""

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
    """The error raised for a text that is not an arithmetic expression.

    The text contains something other than numbers, names, + - * / and parentheses.
    """


class Formula:
    """A parsed arithmetic expression, such as ``100 / (99 + cost)``.

    Call the object with the number of each name to compute the value: ``Formula("100 / (99 + cost)")({"cost": 1.0})``.

    Attributes:
        names: The names in the expression, in alphabetical order.
    """

    def __init__(self, text: str) -> None:
        """Parse an expression.

        Args:
            text: The expression, such as ``100 / (99 + cost)``.

        Raises:
            FormulaError: The text contains something other than numbers, names, + - * / and parentheses.
        """
        names: set[str] = set()
        try:
            self._body = ast.parse(text, mode="eval").body
            self._evaluate = _evaluator(self._body, names, text)
        # RecursionError and MemoryError: the expression is nested too deeply or is too long
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise FormulaError(f"'{text}' is not an arithmetic expression such as 'read / (99 + write)'") from None
        self.names = sorted(names)

    def __call__(self, numbers: Mapping[str, float]) -> float:
        """Return the value of the expression.

        Args:
            numbers: The number of each name in the expression, such as ``{"cost": 1.0}``. Further names are ignored.

        Raises:
            KeyError: The number of a name is missing.
            ZeroDivisionError: The expression divides by zero.
        """
        return self._evaluate(numbers)

    def possible(self, ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
        """Return an interval that contains each value that the expression can have.

        The interval may be too large if a name occurs several times, because its occurrences are taken as independent.

        Args:
            ranges: The smallest and the largest number of each name in the expression.

        Returns:
            The ends of the interval, which may be infinite.
        """
        return _possible(self._body, ranges)


def _evaluator(node: ast.expr, names: set[str], text: str) -> Callable[[Mapping[str, float]], float]:
    """Return a function that computes a part of an expression from named numbers.

    Args:
        node: The part of the expression.
        names: The set to which the names in the part are added.
        text: The complete expression, for error messages.

    Raises:
        FormulaError: The part contains something other than arithmetic.
    """
    match node:
        case ast.Constant(value=int() | float() as value) if _is_number(value):
            number = float(value)
            return lambda _numbers: number
        case ast.Name(id=name):
            names.add(name)
            return lambda numbers: float(numbers[name])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            operation = _OPERATIONS[type(op)]
            first, second = _evaluator(left, names, text), _evaluator(right, names, text)
            return lambda numbers: operation(first(numbers), second(numbers))
    raise FormulaError(f"'{ast.unparse(node)}' in '{text}' is not a number, a name or one of + - * /")


def _possible(node: ast.expr, ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """Return an interval with all values of a part of an expression, which `_evaluator` has accepted.

    Args:
        node: The part of the expression.
        ranges: The smallest and the largest number of each name.
    """
    match node:
        case ast.Constant(value=int() | float() as value):
            return (float(value), float(value))
        case ast.Name(id=name):
            return ranges[name]
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _possible(left, ranges), _possible(right, ranges)
            match op:
                case ast.Add():
                    return (first[0] + second[0], first[1] + second[1])
                case ast.Sub():
                    return (first[0] - second[1], first[1] - second[0])
                case ast.Div():
                    if second[0] < 0 < second[1]:
                        return (-math.inf, math.inf)
                    second = _reciprocal(second)
            products = [_product(one, other) for one in first for other in second]
            return (min(products), max(products))
    raise AssertionError(ast.unparse(node))


def _reciprocal(interval: tuple[float, float]) -> tuple[float, float]:
    """Return the reciprocals of an interval that has 0 at most as an end."""
    infinity = math.inf if interval[1] > 0 else -math.inf
    ends = [1 / end if end else infinity for end in interval]
    return (min(ends), max(ends))


def _product(one: float, other: float) -> float:
    """Return the product of two ends of intervals; 0 times infinity is 0."""
    return one * other if one and other else 0.0


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond the range of float
        return False
