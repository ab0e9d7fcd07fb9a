"""Classify, Regress and MultiInference over gRPC: Examples in, by signatures of fixed names."""

import pytest
from conformance_models import CLASSIFY, HALF_PLUS_TWO_VERSION, REGRESS
from conformance_targets import example, examples, refused, spec, task
from tensorflow_serving.apis import classification_pb2, inference_pb2, input_pb2, regression_pb2

M = "half_plus_two"


def scored(answer) -> list[list[tuple[str, float]]]:
    return [[(one.label, one.score) for one in row.classes] for row in answer.classifications]


def numbers(answer) -> list[float]:
    return [one.value for one in answer.regressions]


def in_context(x: float | None, *own: float | None) -> input_pb2.Input:
    given = input_pb2.Input()
    given.example_list_with_context.context.CopyFrom(example(x))
    given.example_list_with_context.examples.extend(map(example, own))
    return given


@pytest.mark.parametrize("model, y", [(M, [2.5, 3.0]), ("half_plus_three", [3.5, 4.0])])
def test_scores_without_classes_have_no_labels(server, model, y):
    answer = server.classify(model, examples(1.0, 2.0), signature="classify_x_to_y")
    assert scored(answer.result) == [[("", score)] for score in y]


def test_classes_come_with_their_scores_in_order(server):
    answer = server.classify(M, examples(2.0), signature="classify_by_name")
    assert scored(answer.result) == [[("low", 3.0), ("middle", 6.0), ("high", 9.0)]]


def test_classes_without_scores_have_the_score_zero(server):
    answer = server.classify(M, examples(2.0), signature="classes_alone")
    assert scored(answer.result) == [[("low", 0.0), ("middle", 0.0), ("high", 0.0)]]


@pytest.mark.parametrize("model, y", [(M, [2.5, 3.0]), ("half_plus_three", [3.5, 4.0])])
def test_a_regression_gives_a_number_for_each_example(server, model, y):
    assert numbers(server.regress(model, examples(1.0, 2.0), signature="regress_x_to_y").result) == y


def test_a_regression_may_be_a_vector_or_a_column(server):
    assert numbers(server.regress(M, examples(1.0), signature="regress_x_to_y_and_one").result) == [3.5]


@pytest.mark.parametrize("ask", ["classify", "regress"])
def test_an_answer_names_the_signature_as_the_request_did(server, ask):
    signature = f"{ask}_x_to_y"
    answer = getattr(server, ask)(M, examples(1.0), signature=signature)
    assert answer.model_spec == spec(M, signature, HALF_PLUS_TWO_VERSION)


def test_an_answer_names_the_default_signature_where_the_request_named_none(server):
    answer = server.regress("by_default", examples(1.0))
    assert numbers(answer.result) == [2.0]
    assert answer.model_spec == spec("by_default", "serving_default", 1)


def test_a_task_that_names_no_signature_is_answered_by_the_default_one(server):
    (answer,) = server.infer(examples(1.0), task("by_default", "", "regress")).results
    assert numbers(answer.regression_result) == [2.0]
    assert answer.model_spec.signature_name == "serving_default"


def test_features_of_the_context_count_for_each_example(server):
    assert numbers(server.regress(M, in_context(4.0, None, None), signature="regress_x_to_y").result) == [4.0, 4.0]


def test_an_examples_own_feature_wins_over_the_contexts(server):
    assert numbers(server.regress(M, in_context(4.0, 1.0, None), signature="regress_x_to_y").result) == [2.5, 4.0]


def test_predict_takes_the_signatures_of_examples_with_records(server):
    record = example(1.0).SerializeToString()
    answer = server.predict(M, {"inputs": [record]}, signature="regress_x_to_y")
    assert list(answer.outputs["outputs"].float_val) == [2.5]


NO_SIGNATURE = "No signature was found with the name: nonesuch"
ONE, EMPTY, NONE = examples(1.0), examples(), input_pb2.Input()
BAD = "INVALID_ARGUMENT"
REFUSALS = {
    "classify-unknown-signature": ("classify", "nonesuch", ONE, BAD, NO_SIGNATURE),
    "regress-unknown-signature": ("regress", "nonesuch", ONE, BAD, NO_SIGNATURE),
    "classify-empty-list": ("classify", "classify_x_to_y", EMPTY, BAD, "Input is empty."),
    "regress-empty-list": ("regress", "regress_x_to_y", EMPTY, BAD, "Input is empty."),
    "classify-no-input": ("classify", "classify_x_to_y", NONE, BAD, "Input is empty."),
    "regress-no-input": ("regress", "regress_x_to_y", NONE, BAD, "Input is empty."),
    "regress-context-alone": ("regress", "regress_x_to_y", in_context(1.0), BAD, "Input is empty."),
    "regress-missing-feature": ("regress", "regress_x_to_y", examples(None), BAD, "…Feature: x (data type: float) is…"),
    "classify-by-a-predict-signature": ("classify", "serving_default", ONE, BAD,
                                        "No classification inputs found in SignatureDef: …"),
    "regress-by-a-predict-signature": ("regress", "serving_default", ONE, BAD,
                                       "No regression inputs found in SignatureDef: …"),
    "classify-by-a-regress-signature": ("classify", "regress_x_to_y", ONE, BAD,
                                        'Expected classification signature outputs to contain at least one of "classes"'
                                        ' or "scores". Signature was: …'),
    "regress-by-a-classify-signature": ("regress", "classify_by_name", ONE, BAD, "Expected one output Tensor."),
    "regress-renamed-output": ("regress", "regress_renamed", ONE, BAD, "No regression outputs found in SignatureDef: …"),
    "regress-matrix": ("regress", "regress_wide", ONE, BAD, "Expected output Tensor shape to be either [batch_size] or"
                       " [batch_size, 1] but got [1,3]"),
    "regress-doubles": ("regress", "regress_double", ONE, BAD, "Expected output Tensor of DT_FLOAT.  Got: DT_DOUBLE"),
    "regress-fewer-rows": ("regress", "regress_short", examples(1.0, 2.0), BAD,
                           "Input batch size did not match output batch size: 2 vs. 1"),
    "classify-vector": ("classify", "classify_flat", ONE, BAD,
                        "Expected Tensor shape: [batch_size num_classes] but got [1]"),
    "classify-doubles": ("classify", "classify_double", ONE, BAD, "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE"),
    "classify-classes-and-scores-differ": ("classify", "classify_uneven", ONE, BAD,
                                           "Tensors class and score should match in dim_size(1). Got 3 vs. 2"),
    "classify-renamed-output": ("classify", "classify_renamed", ONE, BAD, "Expected classification signature outputs…"),
}  # fmt: skip


@pytest.mark.parametrize("ask, signature, given, code, message", REFUSALS.values(), ids=REFUSALS)
def test_a_wrong_request_is_refused_in_the_words_of_tensorflow_serving(server, ask, signature, given, code, message):
    refused(lambda: getattr(server, ask)(M, given, signature=signature), code, message)


@pytest.mark.parametrize("ask", ["classify", "regress"])
def test_an_unknown_model_is_not_found(server, ask):
    refused(lambda: getattr(server, ask)("nonesuch", ONE), "NOT_FOUND", "Servable not found for request: Latest(nonesuch)")


@pytest.mark.parametrize(
    "ask, request_type",
    [("Classify", classification_pb2.ClassificationRequest), ("Regress", regression_pb2.RegressionRequest)],
)
def test_a_request_without_a_model_spec_is_refused(server, ask, request_type):
    refused(lambda: getattr(server.prediction, ask)(request_type(input=ONE)), "INVALID_ARGUMENT", "Missing ModelSpec")


def test_multi_inference_answers_each_task_in_its_order(server):
    answer = server.infer(
        examples(1.0, 2.0),
        task(M, "regress_x_to_y", "regress"),
        task(M, "classify_by_name", "classify"),
        task(M, "regress_x_to_y_and_one", "regress"),
    )
    first, second, third = answer.results
    assert numbers(first.regression_result) == [2.5, 3.0]
    assert scored(second.classification_result)[1] == [("low", 3.0), ("middle", 6.0), ("high", 9.0)]
    assert numbers(third.regression_result) == [3.5, 4.0]
    signatures = ["regress_x_to_y", "classify_by_name", "regress_x_to_y_and_one"]
    assert [result.model_spec for result in answer.results] == [
        spec(M, signature, HALF_PLUS_TWO_VERSION) for signature in signatures
    ]


def test_multi_inference_feeds_every_tensor_that_its_tasks_read(server):
    """A model of TensorFlow 2 has one for each of its signatures."""
    m = "half_plus_three"
    answer = server.infer(examples(1.0), task(m, "regress_x_to_y", "regress"), task(m, "classify_x_to_y", "classify"))
    assert numbers(answer.results[0].regression_result) == [3.5]
    assert scored(answer.results[1].classification_result) == [[("", 3.5)]]


REGRESS_TASK, CLASSIFY_TASK = task(M, "regress_x_to_y", "regress"), task(M, "classify_x_to_y", "classify")
MULTI_REFUSALS = {
    "no-task": ([], BAD, "ModelSpec has no name specified."),
    "no-model-spec": ([inference_pb2.InferenceTask(method_name=REGRESS)], BAD, "ModelSpec has no name specified."),
    "no-name": ([task("", "regress_x_to_y", "regress")], BAD, "ModelSpec has no name specified."),
    "no-name-in-the-second": ([REGRESS_TASK, task("", "classify_x_to_y", "classify")], BAD,
                              "Found ModelSpec with an empty model name."),
    "unknown-model": ([task("nonesuch", "regress_x_to_y", "regress")], "NOT_FOUND",
                      "Servable not found for request: Latest(nonesuch)"),
    "two-models": ([REGRESS_TASK, task("half_plus_three", "classify_x_to_y", "classify")], BAD,
                   "All ModelSpecs in a MultiInferenceRequest must access the same model name."),
    "signature-twice": ([REGRESS_TASK, REGRESS_TASK], BAD, "Duplicate evaluation of signature: regress_x_to_y"),
    "unknown-signature": ([task(M, "nonesuch", "regress")], BAD,
                          "Requested signature not found in model graph: nonesuch"),
    "predict-has-no-task": ([task(M, "serving_default", "predict")], "UNIMPLEMENTED",
                            "Unsupported signature method_name: tensorflow/serving/predict"),
    "no-method": ([task(M, "regress_x_to_y", "")], "UNIMPLEMENTED", "Unsupported signature method_name: "),
    "regress-by-a-classify-signature": ([CLASSIFY_TASK, task(M, "classify_by_name", "regress")], BAD,
                                        "Expected one output Tensor."),
}  # fmt: skip


@pytest.mark.parametrize("tasks, code, message", MULTI_REFUSALS.values(), ids=MULTI_REFUSALS)
def test_wrong_tasks_are_refused_in_the_words_of_tensorflow_serving(server, tasks, code, message):
    refused(lambda: server.infer(ONE, *tasks), code, message)


def test_multi_inference_of_nothing_is_refused(server):
    refused(lambda: server.infer(EMPTY, REGRESS_TASK, CLASSIFY_TASK), "INVALID_ARGUMENT", "Input is empty.")


def test_the_methods_of_signatures_are_told_as_they_were_saved(server):
    found = server.signatures(M)
    assert (found["classify_x_to_y"].method_name, found["regress_x_to_y"].method_name) == (CLASSIFY, REGRESS)
