"""Facts about the arithmetic in claims: what it comes to, and what is no arithmetic."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns.judging.formulas import Formula, FormulaError

NUMBERS = {"a": 3.0, "b": 0.5, "read_iops": 11753.65}
_numbers = st.one_of(st.integers(0, 10**6).map(str), st.floats(0, 1e6).map(lambda number: format(number, "f")))
_terms = st.one_of(_numbers, st.sampled_from(sorted(NUMBERS)))
expressions = st.recursive(
    _terms,
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from("+-*/"), parts).map(" ".join),
        parts.map(lambda part: f"({part})"),
    ),
    max_leaves=12,
)


@given(expressions)
def test_a_formula_comes_to_what_python_makes_of_it(text: str) -> None:
    try:
        expected = eval(text, {}, dict(NUMBERS))
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            Formula(text)(NUMBERS)
    else:
        assert Formula(text)(NUMBERS) == pytest.approx(expected, nan_ok=True)


def test_products_come_before_sums() -> None:
    assert Formula("100 / (99 + a) * 2 - 1")({"a": 1.0}) == 1.0


@given(expressions)
def test_the_names_of_a_formula_are_those_in_it(text: str) -> None:
    assert Formula(text).names == sorted(set(re.findall("[a-z_]+", text)))


def test_names_come_once_and_in_alphabetical_order() -> None:
    assert Formula("write / read + write * b").names == ["b", "read", "write"]


def test_a_formula_without_names_has_none() -> None:
    assert Formula("2 * (3 + 4)").names == []


def test_whole_numbers_divide_into_fractions() -> None:
    assert Formula("1 / 4")({}) == 0.25


def test_a_formula_may_be_called_with_more_numbers_than_it_names() -> None:
    assert Formula("a")({"a": 1.0, "b": 2.0}) == 1.0


def test_division_by_zero_is_an_error_and_no_infinity() -> None:
    with pytest.raises(ZeroDivisionError):
        Formula("1 / (a - a)")({"a": 2.0})


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "a b", "a = 1", "1; 2", "import os", "read /", "100 %", "\0", "a\nb"]
)
def test_what_cannot_be_parsed_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert str(caught.value) == f"'{text}' is no arithmetic expression such as 'read / (99 + write)'"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a ** 2", "a ** 2"),
        ("1 + a % 2", "a % 2"),
        ("a // 2", "a // 2"),
        ("1 - -a", "-a"),
        ("max(a, b)", "max(a, b)"),
        ("1 + a.real", "a.real"),
        ("a[0]", "a[0]"),
        ("a < b", "a < b"),
        ("a and b", "a and b"),
        ("1 if a else 2", "1 if a else 2"),
        ("'4k' * 2", "'4k'"),
        ("True + 1", "True"),
        ("1j * a", "1j"),
        ("(a, b)", "(a, b)"),
        ("__import__('os').system('false')", "__import__('os').system('false')"),
        ("[a for a in b]", "[a for a in b]"),
        ("(a := 2)", "(a := 2)"),
    ],
)
def test_what_is_no_arithmetic_is_refused_and_quoted(text: str, part: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert str(caught.value) == f"'{part}' in '{text}' is no number, name or + - * /"


@pytest.mark.parametrize("text", ["(" * 5000 + "1" + ")" * 5000, "+".join("1" * 20000)], ids=["nested", "long"])
def test_a_formula_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(FormulaError, match="is no arithmetic expression"):
        Formula(text)


@pytest.mark.parametrize("text", ["1e999", "1" + "0" * 400])
def test_a_number_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(FormulaError, match="is no number"):
        Formula(text)


def test_the_numbers_of_a_formula_are_taken_as_they_are() -> None:
    assert math.isnan(Formula("a + 1")({"a": math.nan}))
