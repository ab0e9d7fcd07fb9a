"""What no bytes of a JSON body can do: nest without end, or make anything but a request or a refusal."""

import json
import random

import pytest
from rest_values import read, refused, shape, tensor

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.document import parse
from bertline.serving.embedded.rest.replies import error_reply
from bertline.serving.settings import Limits


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":'])
def test_deep_documents_are_refused_before_they_are_parsed(opened):
    body = f'{{"instances": {opened * 300_000}'
    assert refused(body, x="FLOAT") == "JSON Parse error: The document is nested deeper than 64 levels"


def test_the_depth_is_that_of_brackets_and_not_of_text():
    texts = ["[{" * 1000, '"[[\\' * 100, "]" * 70]
    made = tensor(read(json.dumps({"instances": texts}), x="STRING"))
    assert [text.decode() for text in made.string_val] == texts


@pytest.mark.parametrize("depth, passes", [(4, True), (3, False)])
def test_the_limit_is_the_deepest_that_passes(depth, passes):
    body = '{"instances": [[[1]], [[2]]]}'
    if passes:
        assert shape(tensor(read(body, Limits(json_depth=depth), x="INT32"))) == [2, 1, 1]
    else:
        with pytest.raises(RequestError, match="deeper than 3 levels"):
            read(body, Limits(json_depth=depth), x="INT32")


def depth_of(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


def test_the_depth_is_counted_right_whatever_the_strings_have():
    drawn = random.Random(2)

    def some(left: int) -> object:
        kind = drawn.random()
        if left == 0 or kind < 0.3:
            return "".join(drawn.choices('[]{}"\\\na', k=drawn.randint(0, 8)))
        items = [some(left - 1) for _ in range(drawn.randint(0, 3))]
        return items if kind < 0.7 else {f"{place}{some(0)}": item for place, item in enumerate(items)}

    for _ in range(500):
        document = {"x": some(8)}
        depth, body = depth_of(document), json.dumps(document).encode()
        assert parse(body, Limits(json_depth=depth)) == document
        with pytest.raises(RequestError, match=f"deeper than {depth - 1} levels"):
            parse(body, Limits(json_depth=depth - 1))


def test_a_limit_above_what_python_can_parse_is_not_believed():
    body = '{"instances": ' + "[" * 5000 + "]" * 5000 + "}"
    with pytest.raises(RequestError, match="deeper than 400 levels"):
        read(body, Limits(json_depth=10**6), x="FLOAT")


def count_of(value: object) -> int:
    """Empty lists and objects, which cost the most, count twice."""
    if not isinstance(value, dict | list):
        return 1
    inside = [*value, *value.values()] if isinstance(value, dict) else value
    return 1 + (sum(map(count_of, inside)) or 1)


@pytest.mark.parametrize("item", [[], {}, "", 1, "[{,\\", [[1, 2], {"a": "b,"}]])
def test_the_limit_is_the_most_values_that_pass(item):
    document = {"instances": [item] * 100}
    body, count = json.dumps(document).encode(), count_of(document)
    assert parse(body, Limits(json_values=count)) == document
    with pytest.raises(RequestError, match="has more than 100 values"):
        parse(body, Limits(json_values=100))


def test_commas_in_texts_are_no_values():
    document = {"instances": ["a: b, [c], {d}, " * 1000, '\\", ' * 1000]}
    assert parse(json.dumps(document).encode(), Limits(json_values=5)) == document


def test_no_bytes_make_anything_but_a_request_or_a_refusal():
    """Requests with some bytes lost, doubled or changed, in every way that a thousand draws find."""
    drawn = random.Random(1)
    good = rb'{"n": [], "instances": [{"x": [1, NaN], "y": {"b64": "aGk="}}, {"x": [-2.5e3, 0], "y": "\ud83d\ude00"}]}'
    assert shape(tensor(read(good, x="FLOAT", y="STRING"))) == [2, 2]
    alphabet = good + bytes(range(256))
    for _ in range(1000):
        body = bytearray(good)
        for _ in range(drawn.randint(1, 6)):
            place = drawn.randrange(len(body))
            body[place : place + drawn.randint(0, 3)] = bytes(drawn.choices(alphabet, k=drawn.randint(0, 3)))
        for dtypes in ({"x": "FLOAT", "y": "STRING"}, {"x": "STRING"}):
            try:
                read(bytes(body), **dtypes)
            except RequestError as error:
                assert error.code == "INVALID_ARGUMENT"
                error_reply(error.message)
