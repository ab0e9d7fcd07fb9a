import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes
from tensorflow.core.framework import tensor_pb2, types_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.tensors import to_array, to_proto

MANY = 1 << 20
NUMBERS = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool float16 bfloat16".split()
FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "int16": "int_val", "int8": "int_val",
    "uint8": "int_val", "uint16": "int_val", "int64": "int64_val", "uint32": "uint32_val", "uint64": "uint64_val",
    "bool": "bool_val", "float16": "half_val", "bfloat16": "half_val", "string": "string_val",
}  # fmt: skip


def sample(name: str) -> np.ndarray:
    """Values at the ends of a type's range, and ordinary ones."""
    dtype = tf.as_dtype(name)
    if name == "string":
        return np.array([[b"", b"a\0", b"\xff\xfe"], ["zwölf".encode(), b"x" * 300, b"[]"]], object)
    if name == "bool":
        return np.array([[True, False, True]])
    if dtype.is_integer:
        return np.array([[dtype.min, dtype.max, 0], [1, 2, 100]], dtype.as_numpy_dtype)
    return np.array([[0.1, -0.0, np.inf], [-np.inf, np.nan, 65504.0]]).astype(dtype.as_numpy_dtype)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """To the last bit, NaN and -0.0 too."""
    if one.dtype == object:
        return other.dtype == object and one.shape == other.shape and one.tolist() == other.tolist()
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def refused(proto: tensor_pb2.TensorProto, most: int = MANY) -> str:
    with pytest.raises(RequestError) as caught:
        to_array(proto, most)
    assert caught.value.code == "INVALID_ARGUMENT"
    return caught.value.message


def shaped(*shape: int, **fields) -> tensor_pb2.TensorProto:
    proto = tensor_pb2.TensorProto(**{"dtype": types_pb2.DT_FLOAT} | fields)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


@pytest.mark.parametrize("name", FIELDS)
def test_every_type_is_read_as_tensorflow_writes_it(name):
    array = sample(name)
    for given_array in (array, array[:0], array[:1, :1], array.reshape(-1)[0:1].reshape(())):
        proto = tf.make_tensor_proto(given_array, dtype=name, shape=given_array.shape)
        assert same(to_array(proto, MANY), given_array)


@pytest.mark.parametrize("name", FIELDS)
def test_every_type_is_written_as_tensorflow_reads_it_in_its_own_field(name):
    for array in (sample(name), sample(name)[:0], sample(name)[0, 2:].reshape(())):
        proto = to_proto(array)
        assert not proto.tensor_content and len(getattr(proto, FIELDS[name])) == array.size
        assert same(tf.make_ndarray(proto), array) and same(to_array(proto, MANY), array)


@pytest.mark.parametrize("array", [np.array(["a", "zwölf"]), np.array([b"a", "zwölf".encode()])])
def test_texts_of_every_kind_are_written_as_bytes(array):
    assert list(to_proto(array).string_val) == [b"a", "zwölf".encode()]


def test_a_tensor_is_written_into_the_message_at_hand():
    proto = tensor_pb2.TensorProto()
    assert to_proto([1.5], proto) is proto and list(proto.double_val) == [1.5]


@given(st.sampled_from(NUMBERS[:10]).flatmap(lambda name: shapes.arrays(name, shapes.array_shapes(min_dims=0, min_side=0))))
def test_what_is_written_is_read_again(array):
    assert same(to_array(to_proto(array), MANY), array)
    assert same(to_array(tf.make_tensor_proto(array, shape=array.shape), MANY), array)


@given(shapes.arrays(object, shapes.array_shapes(min_dims=0, min_side=0), elements=st.binary(max_size=8)))
def test_texts_that_are_written_are_read_again(array):
    assert same(to_array(to_proto(array), MANY), array)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 9])
def test_the_last_value_goes_on_to_the_end_and_none_is_zero(name, count):
    values = (sample(name).reshape(-1).tolist() * 2)[:count]
    proto = to_proto(np.array(values, object if name == "string" else tf.as_dtype(name).as_numpy_dtype))
    proto.dtype = tf.as_dtype(name).as_datatype_enum
    del proto.tensor_shape.dim[:]
    for size in (2, 3):
        proto.tensor_shape.dim.add(size=size)
    zero = b"" if name == "string" else tf.as_dtype(name).as_numpy_dtype(0).item()
    expected = (values + [values[-1] if values else zero] * 6)[:6]
    found = to_array(proto, MANY)
    assert found.shape == (2, 3) and repr(found.reshape(-1).tolist()) == repr(expected)


@pytest.mark.parametrize(
    "shape", [(-1,), (2, -3), (-(1 << 63),), (1,) * 17, (1 << 20, 2), (1 << 62, 1 << 62), (0, 1 << 62), (1 << 40, 0)]
)
def test_shapes_that_no_tensor_has_are_refused(shape):
    for kind in (types_pb2.DT_FLOAT, types_pb2.DT_STRING):
        assert "shape" in refused(shaped(*shape, dtype=kind))


def test_the_bound_is_what_is_allowed():
    assert to_array(shaped(10, float_val=[2.0]), 10).tolist() == [2.0] * 10
    assert "more than 10" in refused(shaped(11, float_val=[2.0]), 10)
    assert to_array(shaped(0, 5), 10).shape == (0, 5)


def test_an_unknown_rank_is_refused():
    proto = shaped()
    proto.tensor_shape.unknown_rank = True
    assert "no shape" in refused(proto)


@pytest.mark.parametrize("content", [b"", b"123", b"12345", bytes(16)])
def test_content_must_have_the_bytes_of_its_shape(content):
    if content:
        assert "bytes" in refused(shaped(1, tensor_content=content))
    else:
        assert to_array(shaped(1, tensor_content=content), MANY).tolist() == [0.0]


def test_texts_are_not_read_from_content():
    assert "string_val" in refused(shaped(1, dtype=types_pb2.DT_STRING, tensor_content=b"a"))


@pytest.mark.parametrize("kind", [0, 8, 11, 18, 20, 21, 101, 77])
def test_types_that_are_not_served_are_named(kind):
    known = kind in types_pb2.DataType.values()
    assert (types_pb2.DataType.Name(kind) if known else str(kind)) in refused(shaped(1, dtype=kind))


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [("DT_INT8", "int_val", 300), ("DT_UINT8", "int_val", -1), ("DT_INT16", "int_val", 1 << 15),
     ("DT_UINT16", "int_val", 1 << 16), ("DT_HALF", "half_val", 1 << 16), ("DT_BFLOAT16", "half_val", -1)],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_type_is_refused(kind, field, value):
    assert "does not fit" in refused(shaped(2, dtype=types_pb2.DataType.Value(kind), **{field: [1, value]}))
