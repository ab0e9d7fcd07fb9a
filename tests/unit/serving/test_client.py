"""What a client does beside sending and receiving: messages, tensors, parts, retries, and what an answer means."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2, predict_pb2, status_pb2
from tiny_models import EVERY, make

from bertline.models.responses import types as answers
from bertline.models.responses.translation import ALIGNED, SAMPLED, TRANSLATED, Sampling, n_best
from bertline.models.responses.types import EMBED, KINDS
from bertline.models.tasks.base.task import tasks_with
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.client import wire
from bertline.serving.client.recognition import Signature, TensorSpec, UnknownKindError, kind_of, text_keys
from bertline.serving.client.requests import Answers, Asking, ClientTls, checked_address, metadata_of, statuses
from bertline.serving.client.retry import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Deadline,
    ModelAddress,
    ServingError,
    explained,
    pause_before,
)
from bertline.serving.client.rows import columns_of, joined, of_choices, paired, parts, row_sizes, to_translate
from bertline.serving.client.wire import MESSAGES, SCHEMA, as_array, fill_tensor, read_tensor

PLACE = ModelAddress("localhost:8500", "reviews")
ASKING = Asking(PLACE)
GENERATED = {
    **{name: getattr(predict_pb2, name) for name in ("PredictRequest", "PredictResponse")},
    **{name: getattr(get_model_status_pb2, name) for name in ("GetModelStatusRequest", "GetModelStatusResponse")},
    **{name: getattr(meta_graph_pb2, name) for name in ("SignatureDef", "TensorInfo")},
    "GetModelMetadataRequest": get_model_metadata_pb2.GetModelMetadataRequest,
    "GetModelMetadataResponse": get_model_metadata_pb2.GetModelMetadataResponse,
    "SignatureDefMap": get_model_metadata_pb2.SignatureDefMap,
    "ModelVersionStatus": get_model_status_pb2.ModelVersionStatus,
    "ModelSpec": model_pb2.ModelSpec,
    "StatusProto": status_pb2.StatusProto,
    "TensorProto": tensor_pb2.TensorProto,
    "TensorShapeProto": tensor_shape_pb2.TensorShapeProto,
    "Dim": tensor_shape_pb2.TensorShapeProto.Dim,
}


def test_a_client_imports_neither_tensorflow_nor_keras():
    script = (
        "import sys; import bertline.serving.client.sync, bertline.pipeline.inference.served;"
        "print([name for name in ('tensorflow', 'keras', 'tfx', 'apache_beam') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(set(SCHEMA) - {"Any", "Int64Value"}))
def test_messages_are_those_of_tensorflow_serving(name):
    for field in MESSAGES[name].DESCRIPTOR.fields:
        generated = GENERATED[name].DESCRIPTOR.fields_by_name[field.name]
        kind = FieldDescriptor.TYPE_INT32 if generated.type == FieldDescriptor.TYPE_ENUM else generated.type
        assert (field.number, field.type, field.label) == (generated.number, kind, generated.label)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            assert field.message_type.name == generated.message_type.name


@pytest.mark.parametrize("dtype", [name for name, _ in wire._NUMBERS.values()])
def test_numbers_are_tensorflows_in_both_forms(dtype):
    array = np.array([[0, 1, 2], [100, 3, 1]]).astype(tf.as_dtype(dtype).as_numpy_dtype)
    typed = tensor_pb2.TensorProto(dtype=tf.as_dtype(dtype).as_datatype_enum)
    field = wire._NUMBERS[typed.dtype][1]
    for size in array.shape:
        typed.tensor_shape.dim.add(size=size)
    bits = array.view(np.uint16) if field == "half_val" else array
    getattr(typed, field).extend(bits.ravel().tolist())
    for proto in (typed, tf.make_tensor_proto(array)):
        found = read_tensor(MESSAGES["TensorProto"].FromString(proto.SerializeToString()), 100)
        np.testing.assert_array_equal(found.astype(np.float64), array.astype(np.float64))
    if dtype != "bfloat16":  # numpy has no such type
        sent = MESSAGES["TensorProto"]()
        fill_tensor(sent, array)
        back = tf.make_ndarray(tensor_pb2.TensorProto.FromString(sent.SerializeToString()))
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


@given(
    st.lists(st.lists(st.one_of(st.text(st.characters(codec="utf-8")), st.binary()), min_size=2, max_size=2), min_size=1)
)
def test_texts_arrive_byte_by_byte_whatever_they_hold(texts):
    sent = MESSAGES["TensorProto"]()
    fill_tensor(sent, as_array(texts))
    there = tf.make_ndarray(tensor_pb2.TensorProto.FromString(sent.SerializeToString()))
    wanted = [[text if isinstance(text, bytes) else text.encode() for text in row] for row in texts]
    assert there.tolist() == wanted == read_tensor(sent, 1000).tolist()


def test_python_numbers_are_tensorflows_and_arrays_keep_their_type():
    for value in ([1.5, 2], [1, 2], True, np.float64(1), np.array([1, 2])):
        sent = MESSAGES["TensorProto"]()
        fill_tensor(sent, as_array(value))
        assert sent.dtype == tf.make_tensor_proto(value).dtype
    assert as_array([2**40]).dtype == np.int64
    with pytest.raises(TypeError, match="all examples have equally many"):
        as_array([["a"], ["b", "c"]])


def test_the_last_value_is_repeated_and_a_few_bytes_never_become_a_flood():
    def proto(size, *values):
        made = MESSAGES["TensorProto"](dtype=1, float_val=values)
        made.tensor_shape.dim.add(size=size)
        return made

    assert read_tensor(proto(4, 1.0, 2.0), 10).tolist() == [1, 2, 2, 2]
    assert read_tensor(proto(2), 10).tolist() == [0, 0]
    with pytest.raises(ValueError, match="more than 10 elements"):
        read_tensor(proto(2**40, 1.0), 10)
    with pytest.raises(ValueError, match="which no tensor has"):
        read_tensor(proto(-1), 10)
    with pytest.raises(ValueError, match="holds 1 values"):
        broken = proto(3)
        broken.tensor_content = b"\0\0\0\0"
        read_tensor(broken, 10)
    reply = MESSAGES["PredictResponse"]()
    reply.outputs["huge"].CopyFrom(proto(2**40, 1.0))
    with pytest.raises(ServingError, match="model reviews: the output huge cannot be read"):
        ASKING.answers(ASKING.predict({"x": [1]}), [reply])


@given(st.lists(st.integers(0, 100), min_size=1, max_size=300), st.integers(1, 64), st.integers(1, 400))
def test_parts_are_all_rows_in_their_order_within_both_bounds(sizes, max_rows, max_bytes):
    found = parts(sizes, max_rows, max_bytes)
    assert [row for part in found for row in range(len(sizes))[part]] == list(range(len(sizes)))
    for part in found:
        assert 1 <= part.stop - part.start <= max_rows
        assert part.stop - part.start == 1 or sum(sizes[part]) <= max_bytes


def test_requests_are_parts_of_the_rows_and_the_replies_are_one_again():
    asking = Asking(PLACE, max_batch=2)
    asked = asking.predict({"text": ["a", "b", "c", "d", "e"], "weight": np.ones([5, 3], np.float32)})
    assert asked.rows == [2, 2, 1]
    assert [list(request.inputs["text"].string_val) for request in asked.requests] == [[b"a", b"b"], [b"c", b"d"], [b"e"]]
    replies = []
    for number, rows in enumerate(asked.rows, 1):  # each padded to the longest of its own
        reply = MESSAGES["PredictResponse"]()
        reply.model_spec.version.value = 7
        fill_tensor(reply.outputs["names"], as_array([["x"] * number] * rows))
        fill_tensor(reply.outputs["scores"], np.full([rows, number], number, np.float32))
        replies.append(reply)
    found = asking.answers(asked, replies)
    assert found.version == 7
    assert found.outputs["names"].tolist()[1:3] == [[b"x", b"", b""], [b"x", b"x", b""]]
    assert found.outputs["scores"].tolist()[1:3] == [[1, 0, 0], [2, 2, 0]]
    replies[1].model_spec.version.value = 8
    assert asking.answers(asked, replies) is None  # rows of two versions are no one answer


def test_messages_stay_below_the_bound_however_long_the_texts_are():
    bound = 20_000
    asking = Asking(PLACE, max_message_bytes=bound)
    texts = [b"x" * size for size in (9_000, 1, 15_000, 7_000, 8_000, 500)]
    asked = asking.predict({"text": texts})
    assert asked.rows == [2, 1, 3]
    assert max(len(request.SerializeToString()) for request in asked.requests) <= bound
    with pytest.raises(
        ServingError, match="example 2 has 19,010 bytes, above the limit of 20,000 for a message"
    ) as refused:
        asking.predict({"text": [b"", b"x" * 19_000]})
    assert refused.value.code == "RESOURCE_EXHAUSTED"


def test_what_has_no_rows_in_common_is_asked_as_it_is():
    asked = Asking(PLACE, max_batch=1).predict({"a": [1, 2, 3], "scale": 2.0})
    assert asked.rows is None and len(asked.requests) == 1
    assert row_sizes({"a": np.zeros([2, 3], np.int64), "b": as_array(["", "xy"])}) == [34, 36]


def test_an_output_that_is_not_one_value_a_row_is_not_joined():
    asking = Asking(PLACE, max_batch=1)
    replies = [MESSAGES["PredictResponse"](), MESSAGES["PredictResponse"]()]
    for reply in replies:
        fill_tensor(reply.outputs["mean"], as_array(0.5))
    with pytest.raises(ServingError, match="mean has the shape .*not one value for each of 1 examples"):
        asking.answers(asking.predict({"text": ["a", "b"]}), replies)


def test_joining_fills_up_every_dimension():
    found = joined([np.ones([1, 2, 1], np.int32), np.full([2, 1, 3], 5, np.int32)])
    assert found.shape == (3, 2, 3) and found.dtype == np.int32
    assert found[0].tolist() == [[1, 0, 0], [1, 0, 0]] and found[2].tolist() == [[5, 5, 5], [0, 0, 0]]


def test_pauses_double_and_are_left_to_chance_by_half():
    longest = [pause_before(attempt, 100, left=1e9, chance=1.0) for attempt in range(1, 12)]
    assert longest[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE] and longest[-1] == LONGEST_PAUSE
    assert [pause_before(attempt, 100, left=1e9, chance=0.0) for attempt in range(1, 12)] == [p / 2 for p in longest]


@given(st.integers(1, 10), st.integers(0, 5), st.floats(0, 3), st.floats(0, 1))
def test_nothing_is_tried_again_beyond_the_deadline_or_too_often(attempt, retries, left, chance):
    pause = pause_before(attempt, retries, left, chance)
    assert pause is None or (attempt <= retries and pause < left)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_every_call_has_a_deadline(seconds):
    with pytest.raises(ValueError, match="more than 0 seconds"):
        Deadline.after(seconds)
    assert Deadline(1.0, at=0.0).left == 0


@pytest.mark.parametrize(
    ("code", "details", "part"),
    [
        ("UNAVAILABLE", "failed to connect to all addresses", "no server responds .*start the server"),
        ("UNAVAILABLE", "Ssl handshake failed: SSL_ERROR_SSL", "no secure connection"),
        ("UNAVAILABLE", "Trying to connect an http1.x server", "not a gRPC port"),
        ("UNAVAILABLE", "The batch scheduling queue to which this task was submitted is full", "overloaded"),
        ("DEADLINE_EXCEEDED", "", r"no response within 2\.5 s .*allow more time"),
        ("NOT_FOUND", "Servable not found for request: Latest(reviews)", "no such model .*'reviews'"),
        ("INVALID_ARGUMENT", "Task size 64 is larger than maximum input batch size 32", "set max_batch to 32"),
        ("RESOURCE_EXHAUSTED", "Received message larger than max (9 vs. 4)", "max_message_bytes"),
        ("UNIMPLEMENTED", "Method not found!", "not a TensorFlow Serving server"),
        ("FAILED_PRECONDITION", 'Serving signature key "s" not found.', 'FAILED_PRECONDITION: .*key "s" not found'),
    ],
)
def test_a_failure_says_where_what_and_what_to_do(code, details, part):
    error = explained(code, details, PLACE, 2.5)
    assert isinstance(error, BertlineError) and error.code == code and error.message == str(error)
    assert str(error).startswith("localhost:8500, model reviews: ") and re.search(part, str(error))
    assert details.rstrip(".") in str(error)


def test_a_version_that_is_not_there_is_told_with_those_that_are():
    error = explained("NOT_FOUND", "Specific(reviews, 7)", ModelAddress("h:1", "reviews", version=7), 1.0, versions=[3, 4])
    assert "h:1, model reviews version 7: no such version" in str(error) and "it has 3, 4" in str(error)


@pytest.mark.parametrize("address", ["localhost", "http://localhost:8501", ":8500", "localhost:0", "::1:8500", "host:x"])
def test_what_is_no_address_is_refused_before_it_is_looked_for(address):
    with pytest.raises(BertlineError, match=re.escape(address)):
        checked_address(address)
    for good in ("localhost:8500", "[::1]:8500", "unix:/tmp/socket", "dns:///host:1"):
        assert checked_address(good) == good


def test_what_contradicts_itself_is_refused():
    with pytest.raises(BertlineError, match="a version and a label name two"):
        Asking(ModelAddress("h:1", "m", version=1, label="stable"))
    with pytest.raises(BertlineError, match="give one"):
        Asking(ModelAddress("h:1", ""))
    with pytest.raises(BertlineError, match="certificate and its key go together"):
        ClientTls(cert=b"x")
    with pytest.raises(BertlineError, match="none.pem: cannot be read"):
        ClientTls.read(ca="none.pem")
    with pytest.raises(ValueError, match="1 texts and 2 second ones"):
        paired("a", ["b", "c"])
    with pytest.raises(ValueError, match="one text or more"):
        of_choices("a", "bc", None)


def test_a_request_names_the_version_or_the_label():
    versioned = Asking(ModelAddress("h:1", "m", version=0)).predict({"text": ["a"]}, "embed", ["vector"]).requests[0]
    assert versioned.model_spec.version.value == 0 and versioned.model_spec.HasField("version")
    assert versioned.model_spec.signature_name == "embed" and list(versioned.output_filter) == ["vector"]
    labelled = Asking(ModelAddress("h:1", "m", label="stable"))
    assert labelled.metadata().model_spec.version_label == "stable"
    assert not labelled.status(any_version=True).model_spec.version_label


def test_a_text_is_a_row_and_choices_are_filled_up():
    assert paired("abc", None) == [{"text": b"abc"}]
    assert paired(["a", b"\xff"], ["é", "b"])[0] == {"text": b"a", "text_2": "é".encode()}
    rows = [of_choices("x", ["a", "b", "c"], None), of_choices("y", ["d"], None)]
    assert columns_of(rows)["choices"].tolist() == [[b"a", b"b", b"c"], [b"d", b"", b""]]


def spec(tensor):
    return TensorSpec(tensor.dtype.name, tuple(tensor.shape))


@pytest.fixture(scope="module")
def signatures(tmp_path_factory):
    """The signatures of every task as its served model has them."""
    found = {}
    for tiny in EVERY:
        served = make(tiny, tmp_path_factory.mktemp("vocab"))
        for name, function in served.signatures().items():
            if name in ("serving_default", EMBED):
                traced = function.get_concrete_function()
                inputs = {given.name: given for given in traced.structured_input_signature[0]}
                found[(*tiny, name)] = Signature(
                    {name: spec(given) for name, given in inputs.items()},
                    {name: spec(output) for name, output in traced.structured_outputs.items()},
                )
    return found


@pytest.mark.parametrize("tiny", EVERY, ids=lambda tiny: "-".join((tiny.task, *tiny.texts)))
def test_every_task_is_told_by_the_signature_of_its_served_model(signatures, tiny):
    signature = signatures[(*tiny, "serving_default")]
    kind = kind_of(signature)
    assert tiny.task in tasks_with(kind) and set(kind.outputs) == set(signature.outputs)
    names = ("question", "context") if tiny.task == "answering" else tiny.texts
    assert text_keys(kind, signature) == names
    if (*tiny, EMBED) in signatures:
        assert kind_of(signatures[(*tiny, EMBED)]).call == "embed"


def test_no_task_of_the_pipeline_is_left_out():
    folder = Path(answers.__file__).parents[1] / "tasks"
    tasks = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    known = sorted(task for kind in KINDS for task in tasks_with(kind))
    assert tasks == sorted({tiny.task for tiny in EVERY}) == known


def test_a_foreign_or_ambiguous_signature_is_told_and_not_guessed(signatures):
    text = {"text": TensorSpec("string", (None,))}
    classified = signatures["classification", ("text",), "serving_default"]
    for inputs, outputs, part in [
        (text, {"logits": TensorSpec("float32", (None, 2))}, "takes text and gives logits, which belongs to no task"),
        ({"ids": TensorSpec("int64", (None, None))}, classified.outputs, "no task of Bertline"),
        ({"text": TensorSpec("int64", (None,))}, classified.outputs, "no task of Bertline"),
        ({"text": TensorSpec("string", (None, None))}, classified.outputs, "no task of Bertline"),
        (text, {**classified.outputs, "labels": TensorSpec("string", None)}, "may be classification or multilabel"),
    ]:
        with pytest.raises(UnknownKindError, match=part):
            kind_of(Signature(inputs, outputs))
    more = {**classified.outputs, "logits": TensorSpec("float32", (None, 2))}
    assert kind_of(Signature({"text": TensorSpec("string", None)}, more)).call == "classify"


def test_translations_are_told_by_their_signatures_and_drawn_ones_by_their_numbers():
    text, numbers = {"text": TensorSpec("string", (None,))}, {
        "temperature": TensorSpec("float32", (None,)), "top_k": TensorSpec("int32", (None,)),
        "top_p": TensorSpec("float32", (None,)), "seed": TensorSpec("int64", (None,)),
    }  # fmt: skip
    best, drawn = (dict.fromkeys(kind.outputs, TensorSpec("string", None)) for kind in (TRANSLATED, SAMPLED))
    assert kind_of(Signature(text, best)) is TRANSLATED
    assert kind_of(Signature({**text, **numbers}, drawn)) is SAMPLED
    assert kind_of(Signature(text, dict.fromkeys(ALIGNED.outputs, TensorSpec("string", None)))) is ALIGNED
    for inputs in (text, {**text, "seed": numbers["seed"]}, {**text, **numbers, "seed": TensorSpec("int32", (None,))}):
        with pytest.raises(UnknownKindError, match="no task of Bertline"):
            kind_of(Signature(inputs, drawn))


def test_numbers_beside_texts_keep_the_types_of_their_signature():
    rows = to_translate(["a", "b"], Sampling(top_k=3, seed=1))[1]
    columns = columns_of(rows)
    assert {name: columns[name].dtype.name for name in SAMPLED.numbers} == SAMPLED.numbers
    assert columns["seed"].tolist() == [1, 1] and columns["text"].tolist() == [b"a", b"b"]
    assert row_sizes(columns) == [11 + 4 + 4 + 4 + 8] * 2
    with pytest.raises(ValueError, match="top_p above 0 and 1 at most.*Received: .*top_p=0"):
        Sampling(top_p=0)
    assert Sampling(seed=np.int64(7)).numbers()["seed"] == 7


def test_metadata_and_status_are_read_from_the_real_messages():
    signature_map = get_model_metadata_pb2.SignatureDefMap()
    defined = signature_map.signature_def["serving_default"]
    defined.method_name = "tensorflow/serving/predict"
    for name, shape in (("text", [-1]), ("any", None)):
        info = meta_graph_pb2.TensorInfo(name=f"{name}:0", dtype=7)
        info.tensor_shape.unknown_rank = shape is None
        for size in shape or ():
            info.tensor_shape.dim.add(size=size)
        defined.inputs[name].CopyFrom(info)
    reply = get_model_metadata_pb2.GetModelMetadataResponse()
    reply.model_spec.version.value = 3
    reply.metadata["signature_def"].Pack(signature_map)
    found = metadata_of(MESSAGES["GetModelMetadataResponse"].FromString(reply.SerializeToString()))
    assert found.version == 3
    assert found.signatures["serving_default"].inputs == {
        "any": TensorSpec("string", None),
        "text": TensorSpec("string", (None,)),
    }
    status = get_model_status_pb2.GetModelStatusResponse()
    status.model_version_status.add(version=3, state="AVAILABLE")
    status.model_version_status.add(version=4, state="END").status.error_message = "broken"
    available, broken = statuses(MESSAGES["GetModelStatusResponse"].FromString(status.SerializeToString()))
    assert (available.version, available.state) == (3, "AVAILABLE")
    assert (broken.state, broken.error_message) == ("END", "broken")


def test_a_call_that_does_not_fit_the_model_names_the_one_that_does():
    rows = ASKING.rows(Answers({"value": np.array([1.5, 2.5], np.float32)}, 3), 2)
    assert ASKING.read(rows, answers.NUMBER) == [answers.Number(1.5, version=3), answers.Number(2.5, version=3)]
    with pytest.raises(ServingError, match="returns value, which is not a response to classify; use regress"):
        ASKING.read(rows, answers.CLASSIFIED)
    with pytest.raises(ServingError, match="not one value for each of 3 examples"):
        ASKING.rows(Answers({"value": np.zeros(2)}), 3)


def test_answers_are_in_the_users_terms():
    shares = {"classes": np.array([b"bad", "très bon".encode()], object), "probabilities": np.float32([0.25, 0.75])}
    classified = answers.CLASSIFIED.read({"label": "très bon".encode(), **shares})
    assert classified.label == "très bon" and classified.probabilities == {"bad": 0.25, "très bon": 0.75}
    assert classified.version is None and str(classified) == "très bon 0.750  bad 0.250"
    labelled = answers.MULTI_CLASSIFIED.read({"labels": ["très bon".encode(), b""], **shares})
    assert labelled.labels == ("très bon",)
    entities = {
        "types": [b"PER", b""], "entities": ["Zoë".encode(), b""], "starts": [4, 0], "ends": [7, 0],
        "probabilities": [0.5, 0.0], "count": 1,
    }  # fmt: skip
    assert answers.TAGGED.read(entities).entities == (answers.Entity("PER", "Zoë", 4, 7, 0.5),)
    fillings = {"fillings": [[b"a", b"b"], [b"", b""]], "probabilities": [[0.5, 0.25], [0.0, 0.0]]}
    assert answers.FILLED.read(fillings).masks == ((answers.MaskPrediction("a", 0.5), answers.MaskPrediction("b", 0.25)),)
    span = {
        "answer": b"the", "start": 4, "end": 7, "score": 0.75, "margin": -1.0, "n_best": [b"the", b"", b""],
        "n_best_scores": [0.75, 0.25, 0.0], "n_best_starts": [4, 0, 0], "n_best_ends": [7, 0, 0],
    }  # fmt: skip
    translated = {
        "translation": "une façon".encode(), "score": np.float32(-0.5), "n_best": ["une façon".encode(), b"", b"x", b""],
        "n_best_scores": np.float32([-0.5, -1, -np.inf, 0]),
    }  # fmt: skip
    found = TRANSLATED.read(translated)
    assert (found.text, found.score, str(found)) == ("une façon", -0.5, "une façon")
    assert (
        found.n_best == (("une façon", -0.5), ("", -1.0)) and found.listed(9) == "  -0.500  une façon\n  -1.000  (nothing)"
    )
    empty = {"translation": b"", "score": 0.0, "n_best": [b""], "n_best_scores": [0.0]}
    assert TRANSLATED.read(empty).n_best == (("", 0.0),)  # a text of nothing may be translated so, and for certain
    found = answers.SPAN_ANSWER.read(span)
    assert (found.text, found.start, found.end, found.score) == ("the", 4, 7, 0.75)
    assert found.n_best == (answers.Span("the", 4, 7, 0.75), answers.Span("", 0, 0, 0.25))


def test_more_translations_than_a_model_gives_are_refused():
    given = {"translation": b"a", "score": -0.5, "n_best": [b"a", b"b"], "n_best_scores": [-0.5, -1.0]}
    assert n_best(2).plain(given)["n_best"] == ["a", "b"]
    with pytest.raises(BertlineError, match=r"--n-best 3: this model gives its 2 best; .* translation.n_best=3"):
        n_best(3).read(given)
