"""Run the steps of a mend, to see whether they do what they promise before anyone pastes them.

A step is text such as ``filter(pl.col('x').is_not_null())``. It is parsed, and only the part of
Polars that mends are written in is understood: no text becomes Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

_FRAME = ("filter", "with_columns", "drop", "rename", "sort", "unique")
"""Methods of a table that a step may be."""
_ROOTS: Mapping[str, Any] = {
    name: getattr(pl, name)
    for name in (
        *("col", "lit", "len", "struct", "when", "element", "int_range"),
        *("all_horizontal", "sum_horizontal"),
        *("concat_str", "concat_list", "Float64", "Int64", "String", "Boolean"),
    )
}
_METHODS = frozenset(
    (
        *("abs", "alias", "all", "any", "arr", "cast", "contains", "cum_sum", "diff", "eval"),
        *("fill_null", "is_duplicated", "is_finite", "is_in", "is_not_null", "is_null", "len"),
        *("list", "min", "otherwise", "over", "replace", "replace_all", "replace_strict"),
        *("rle_id", "shift", "str", "strip_chars", "then", "to_datetime", "to_list"),
        *("to_lowercase", "unique"),
    )
)
"""Methods of expressions that mends use."""
_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Invert: operator.invert,
    ast.USub: operator.neg,
}


def run_steps(frame: pl.DataFrame, steps: Sequence[str]) -> pl.DataFrame:
    """Run the steps of a mend on a table, one after the other.

    Parameters
    ----------
    frame
        The table.
    steps
        As in `Mend.steps`.

    Raises
    ------
    polars.exceptions.PolarsError
        A step cannot be done, such as one on a column that an earlier one dropped.
    ValueError
        A step is written in more than mends are.
    """
    for step in steps:
        call = ast.parse(step, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError(f"expected a method of a table, found {step!r}.")
        if call.func.id not in _FRAME:
            raise ValueError(f"expected one of {', '.join(_FRAME)}, found {call.func.id!r}.")
        frame = getattr(frame, call.func.id)(*_positional(call), **_named(call))
    return frame


def run_expression(text: str) -> pl.Expr:
    """The expression that a text of a mend stands for."""
    found: pl.Expr = _value(ast.parse(text, mode="eval").body)
    return found


def _positional(call: ast.Call) -> list[Any]:
    return [_value(each) for each in call.args]


def _named(call: ast.Call) -> dict[str, Any]:
    return {str(each.arg): _value(each.value) for each in call.keywords}


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple():
            return [_value(each) for each in node.elts]
        case ast.Dict():
            keys = [_value(key) for key in node.keys if key is not None]
            return dict(zip(keys, map(_value, node.values), strict=True))
        case ast.UnaryOp():
            return _operator(node.op)(_value(node.operand))
        case ast.BinOp():
            return _operator(node.op)(_value(node.left), _value(node.right))
        case ast.Compare(ops=[one]):
            return _operator(one)(_value(node.left), _value(node.comparators[0]))
        case ast.Call():
            return _value(node.func)(*_positional(node), **_named(node))
        case ast.Attribute(value=ast.Name(id="pl"), attr=name) if name in _ROOTS:
            return _ROOTS[name]
        case ast.Attribute(attr=name) if name in _METHODS:
            return getattr(_value(node.value), name)
    raise ValueError(f"expected what mends are written in, found {ast.unparse(node)!r}.")


def _operator(kind: ast.AST) -> Callable[..., Any]:
    if type(kind) not in _OPERATORS:
        raise ValueError(f"expected an operator of mends, found {type(kind).__name__}.")
    return _OPERATORS[type(kind)]
