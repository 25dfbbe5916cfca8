"""Evaluate the formulas of claims, and refuse everything that is not arithmetic."""

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
def test_a_formula_has_the_value_that_python_computes(text: str) -> None:
    try:
        expected = eval(text, {}, dict(NUMBERS))
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            Formula(text)(NUMBERS)
    else:
        assert Formula(text)(NUMBERS) == pytest.approx(expected, nan_ok=True)


@given(expressions)
def test_names_are_listed_once_in_alphabetical_order(text: str) -> None:
    assert Formula(text).names == sorted(set(re.findall("[a-z_]+", text)))


def test_a_formula_may_be_called_with_more_numbers_than_it_names() -> None:
    assert Formula("a")({"a": 1.0, "b": 2.0}) == 1.0


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        Formula("1 / (a - a)")({"a": 2.0})


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "a b", "a = 1", "1; 2", "import os", "read /", "100 %", "\0", "a\nb"]
)
def test_text_that_cannot_be_parsed_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert str(caught.value) == f"'{text}' is not an arithmetic expression such as 'read / (99 + write)'"


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
def test_an_expression_other_than_arithmetic_is_refused_and_quoted(text: str, part: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert str(caught.value) == f"'{part}' in '{text}' is not a number, a name or one of + - * /"


@pytest.mark.parametrize("text", ["(" * 5000 + "1" + ")" * 5000, "+".join("1" * 20000)], ids=["nested", "long"])
def test_an_expression_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(FormulaError, match="is not an arithmetic expression"):
        Formula(text)


@pytest.mark.parametrize("text", ["1e999", "1" + "0" * 400])
def test_an_infinite_number_is_refused(text: str) -> None:
    with pytest.raises(FormulaError, match="is not a number"):
        Formula(text)
