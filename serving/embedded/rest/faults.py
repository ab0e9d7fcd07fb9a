"""What is wrong with values that are no tensor: they are gone through one by one, in the order of the real server."""

from __future__ import annotations

from typing import Any, NoReturn

from tensorflow.core.framework import types_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.document import ill_formed, invalid, shown, too_big, type_of
from bertline.serving.embedded.rest.values import KINDS, NUMBERS, Infos, any_too_big, from_base64, is_named, type_name


def find_fault(rows: list[Any], inputs: Infos) -> NoReturn:
    """Row by row, as the real server reads them, up to the first that it refuses."""
    named = is_named(rows[0])
    first: dict[str, tuple[int, list[int]]] = {}
    for place, row in enumerate(rows):
        if is_named(row) != named:
            but = "object but got list" if named else "value/list but got object"
            raise invalid(f"Expecting {but} at item {place} of input list")
        for name, item in row.items() if named else [(min(inputs), row)]:
            try:
                _check_item(item, name, inputs, first)
            except RequestError as error:
                where = f"element: {place} key: {name}" if named else f"element: {place}"
                said = f"{error.code}: {error.message}"
                raise invalid(f"Failed to process {where} of 'instances' list. Error: {said}") from None
        if named and row.keys() != set(inputs):
            raise invalid(
                f"Failed to process element: {place} of 'instances' list. JSON object: {shown(row)} "
                f"keys must be equal to: {','.join(sorted(inputs))}"
            )
    raise ill_formed(rows, "is no tensor")


def _check_item(item: Any, name: str, inputs: Infos, first: dict[str, tuple[int, list[int]]]) -> None:
    """Every row has the size and the shape of the first."""
    if name not in inputs:
        raise invalid(f"JSON object: does not have named input: {name}")
    shape = shape_of(item)
    count = count_of(item, 0, shape, inputs[name].dtype)
    first_count, first_shape = first.setdefault(name, (count, shape))
    if count != first_count:
        raise invalid(f"Expecting tensor size: {first_count} but got: {count}")
    if shape != first_shape:
        wanted, found = (f"[{','.join(map(str, sizes))}]" for sizes in (first_shape, shape))
        raise invalid(f"Expecting shape {wanted} but got: {found}")


def shape_of(value: Any) -> list[int]:
    """As the first element of each level has it."""
    shape: list[int] = []
    while type(value) is list:
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def count_of(value: Any, level: int, shape: list[int], dtype: int) -> int:
    """How many values there are, or an error that names the one that is out of place or not of the type."""
    if type(value) is not list:
        if level != len(shape):
            raise invalid(
                f"JSON Value: {shown(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}"
            )
        _check_value(value, dtype)
        return 1
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        sizes = f"{len(value)} at level: {level} expected size: {shape[level]}"
        raise invalid(f"Encountered list at unexpected size: {sizes}")
    return sum(count_of(item, level + 1, shape, dtype) for item in value)


def _check_value(value: Any, dtype: int) -> None:
    kind = KINDS.get(dtype)
    if dtype == types_pb2.DT_STRING and type(value) is dict:
        from_base64(value)
    elif kind is None and type(value) is not dict:
        raise RequestError("UNIMPLEMENTED", f"Conversion of JSON Value: {shown(value)} to type: {type_name(dtype)}")
    elif kind is None or not kind.takes([value]):
        raise ill_formed(value, f"Type: {type_of(value)} is not of expected type: {type_name(dtype)}")
    elif kind.types is NUMBERS and any_too_big([value]):
        raise too_big()
