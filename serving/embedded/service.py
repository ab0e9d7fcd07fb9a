"""What TensorFlow Serving's RPCs do, whichever door a request comes through: messages in, messages out.

Over 300 lines in one module: there is a short method for each RPC, and they share how a version is leased and run.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import numpy as np
from google.protobuf import wrappers_pb2
from google.protobuf.message import Message
from tensorflow.core.protobuf import error_codes_pb2, meta_graph_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from bertline.serving.embedded import inference
from bertline.serving.embedded.batching import Runner, Task
from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.lifecycle.known import Lease
from bertline.serving.embedded.lifecycle.manager import Manager
from bertline.serving.embedded.lifecycle.servable import Fetches
from bertline.serving.embedded.monitoring import Monitoring
from bertline.serving.embedded.tensors import to_array, to_proto
from bertline.serving.settings import Limits

SIGNATURE_DEF = "signature_def"
Given = TypeVar("Given", bound=Message)
Rest = ParamSpec("Rest")
Answer = TypeVar("Answer")


class RequestLog(Protocol):
    """What keeps a sample of requests with their answers."""

    def keep(self, request: Message, response: Message) -> None: ...


def _counted(api: str) -> Callable[[Callable[Concatenate[Any, Rest], Answer]], Callable[Concatenate[Any, Rest], Answer]]:
    """Counts and times each request of an RPC, under the model's name and how it ended."""

    def decorate(method: Callable[Concatenate[Any, Rest], Answer]) -> Callable[Concatenate[Any, Rest], Answer]:
        @functools.wraps(method)
        def measured(self: Service, *args: Rest.args, **kwargs: Rest.kwargs) -> Answer:
            request, call = cast(tuple[Any, Call], args)
            began, status = time.perf_counter(), "INTERNAL"
            try:
                answer = method(self, *args, **kwargs)
                status = "OK"
                return answer
            except RequestError as error:
                status = error.code
                raise
            finally:
                self.monitoring.request(_model_name(request), status, api, call.entrypoint, time.perf_counter() - began)

        return measured

    return decorate


class Service:
    """The RPCs. Each raises `RequestError` where it refuses."""

    def __init__(
        self,
        manager: Manager,
        runner: Runner,
        monitoring: Monitoring,
        limits: Limits,
        log: RequestLog | None = None,
    ) -> None:
        self.manager, self.monitoring = manager, monitoring
        self._runner, self._limits, self._log = runner, limits, log

    @_counted("Predict")
    def predict(self, request: predict_pb2.PredictRequest, call: Call) -> predict_pb2.PredictResponse:
        with self._lease(request) as lease:
            name = request.model_spec.signature_name or inference.DEFAULT
            signature = lease.servable.signatures.get(name)
            if signature is None:
                raise RequestError("FAILED_PRECONDITION", f'Serving signature key "{name}" not found.')
            check_inputs(signature, request.inputs)
            aliases = wanted_outputs(signature, request.output_filter)
            keys = sorted(signature.inputs)
            arrays = [to_array(request.inputs[key], self._limits.tensor_elements) for key in keys]
            outputs = self._run(
                lease,
                tuple(signature.inputs[key].name for key in keys),
                tuple(signature.outputs[alias].name for alias in aliases),
                arrays,
                call,
                "Predict",
            )
        response = predict_pb2.PredictResponse(model_spec=_spec(lease, name))
        for alias, output in zip(aliases, outputs, strict=True):
            to_proto(output, response.outputs[alias])
        return self._kept(request, response)

    @_counted("Classify")
    def classify(
        self, request: classification_pb2.ClassificationRequest, call: Call
    ) -> classification_pb2.ClassificationResponse:
        spec, result = self._inferred(
            request, call, "Classify", inference.classification_tensors, inference.classification_result
        )
        return self._kept(request, classification_pb2.ClassificationResponse(model_spec=spec, result=result))

    @_counted("Regress")
    def regress(self, request: regression_pb2.RegressionRequest, call: Call) -> regression_pb2.RegressionResponse:
        spec, result = self._inferred(request, call, "Regress", inference.regression_tensors, inference.regression_result)
        return self._kept(request, regression_pb2.RegressionResponse(model_spec=spec, result=result))

    @_counted("MultiInference")
    def multi_inference(
        self, request: inference_pb2.MultiInferenceRequest, call: Call
    ) -> inference_pb2.MultiInferenceResponse:
        # As in TensorFlow Serving, no task and a task of no model are one and the same mistake.
        with self.manager.lease(request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()) as lease:
            signatures = self._of_tasks(lease, request)
            tensors = [
                inference.TENSORS[task.method_name](signature)
                for task, signature in zip(request.tasks, signatures, strict=True)
            ]
            sources = tuple(sorted({source for source, _ in tensors}))
            fetches = tuple(sorted({name for _, names in tensors for name in names}))
            outputs, rows = self._of_examples(lease, request, sources, fetches, call, "MultiInference")
        response = inference_pb2.MultiInferenceResponse()
        for task, signature in zip(request.tasks, signatures, strict=True):
            result = response.results.add(model_spec=_spec(lease, task.model_spec.signature_name or inference.DEFAULT))
            if task.method_name == inference.CLASSIFY_METHOD:
                result.classification_result.CopyFrom(inference.classification_result(signature, outputs, rows))
            else:
                result.regression_result.CopyFrom(inference.regression_result(signature, outputs, rows))
        return self._kept(request, response)

    @_counted("GetModelMetadata")
    def get_model_metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, call: Call
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        if not request.HasField("model_spec"):
            raise RequestError("INVALID_ARGUMENT", "Missing ModelSpec")
        if not request.metadata_field:
            raise RequestError("INVALID_ARGUMENT", "GetModelMetadataRequest must specify at least one metadata_field")
        for name in request.metadata_field:
            if name != SIGNATURE_DEF:
                raise RequestError("INVALID_ARGUMENT", f"Metadata field {name} is not supported")
        with self._lease(request) as lease:
            signatures = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in lease.servable.signatures.items():
                signatures.signature_def[name].CopyFrom(signature)
            response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=_spec(lease, ""))
        response.metadata[SIGNATURE_DEF].Pack(signatures)
        return response

    def get_model_status(
        self, request: get_model_status_pb2.GetModelStatusRequest, call: Call
    ) -> get_model_status_pb2.GetModelStatusResponse:
        if not request.HasField("model_spec"):
            raise RequestError("INVALID_ARGUMENT", "Missing ModelSpec")
        response = get_model_status_pb2.GetModelStatusResponse()
        for number, state, error in self.manager.statuses(request.model_spec):
            status = response.model_version_status.add(version=number, state=state)
            status.status.error_code = error_codes_pb2.Code.Value(error.code) if error else error_codes_pb2.OK
            status.status.error_message = error.message if error else ""
        return response

    def reload(
        self, request: model_management_pb2.ReloadConfigRequest, call: Call
    ) -> model_management_pb2.ReloadConfigResponse:
        if request.config.WhichOneof("config") != "model_config_list":
            raise RequestError(
                "INVALID_ARGUMENT",
                "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently"
                " supported",
            )
        self.manager.reload(request.config)
        response = model_management_pb2.ReloadConfigResponse()
        response.status.error_code = error_codes_pb2.OK
        return response

    def input_infos(self, spec: model_pb2.ModelSpec, signature_name: str) -> Mapping[str, meta_graph_pb2.TensorInfo]:
        """What a signature takes: REST needs it to read JSON."""
        name = signature_name or inference.DEFAULT
        with self.manager.lease(spec) as lease:
            signature = lease.servable.signatures.get(name)
        if signature is None:
            raise RequestError("INVALID_ARGUMENT", f'Serving signature name: "{name}" not found in signature def')
        return signature.inputs

    @contextlib.contextmanager
    def _lease(self, request: Any) -> Iterator[Lease]:
        if not request.HasField("model_spec"):
            raise RequestError("INVALID_ARGUMENT", "Missing ModelSpec")
        with self.manager.lease(request.model_spec) as lease:
            yield lease

    def _inferred(
        self,
        request: Any,
        call: Call,
        api: str,
        tensors: Callable[[meta_graph_pb2.SignatureDef], tuple[str, list[str]]],
        result: Callable[[meta_graph_pb2.SignatureDef, inference.Outputs, int], Answer],
    ) -> tuple[model_pb2.ModelSpec, Answer]:
        """(what answered, what it says of the Examples), by one signature."""
        name = request.model_spec.signature_name or inference.DEFAULT
        with self._lease(request) as lease:
            missing = "No signature was found with the name: "
            signature = inference.find_signature(lease.servable.signatures, name, missing)
            source, fetches = tensors(signature)
            outputs, rows = self._of_examples(lease, request, (source,), tuple(fetches), call, api)
            return _spec(lease, name), result(signature, outputs, rows)

    def _of_tasks(self, lease: Lease, request: inference_pb2.MultiInferenceRequest) -> list[meta_graph_pb2.SignatureDef]:
        names: set[str] = set()
        found = []
        for task in request.tasks:
            if not task.model_spec.name:
                raise RequestError("INVALID_ARGUMENT", "Found ModelSpec with an empty model name.")
            if task.model_spec.name != lease.model:
                raise RequestError(
                    "INVALID_ARGUMENT", "All ModelSpecs in a MultiInferenceRequest must access the same model name."
                )
            name = task.model_spec.signature_name or inference.DEFAULT
            if name in names:
                raise RequestError("INVALID_ARGUMENT", f"Duplicate evaluation of signature: {name}")
            names.add(name)
            missing = "Requested signature not found in model graph: "
            found.append(inference.find_signature(lease.servable.signatures, name, missing))
            if task.method_name not in inference.TENSORS:
                raise RequestError("UNIMPLEMENTED", f"Unsupported signature method_name: {task.method_name}")
        return found

    def _of_examples(
        self, lease: Lease, request: Any, sources: tuple[str, ...], fetches: Fetches, call: Call, api: str
    ) -> tuple[dict[str, np.ndarray], int]:
        """The outputs and how many Examples there are; each of `sources` is fed with them all."""
        records = inference.serialized_examples(request.input)
        self.monitoring.examples(lease.model, len(records))
        outputs = self._run(lease, sources, fetches, [records] * len(sources), call, api)
        return dict(zip(fetches, outputs, strict=True)), len(records)

    def _run(
        self,
        lease: Lease,
        feeds: tuple[str, ...],
        fetches: Fetches,
        arrays: Sequence[np.ndarray],
        call: Call,
        api: str,
    ) -> list[np.ndarray]:
        began = time.perf_counter()
        outputs = self._runner.run(Task(lease.model, lease.servable, feeds, fetches, arrays, call))
        self.monitoring.runtime(lease.model, api, time.perf_counter() - began)
        return outputs

    def _kept(self, request: Message, response: Given) -> Given:
        if self._log:
            self._log.keep(request, response)
        return response


def check_inputs(signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, Any]) -> None:
    """Refuses a request that has not exactly the signature's inputs."""
    sent, known = set(inputs), set(signature.inputs)
    if sent == known:
        return
    listed = {name: ",".join(sorted(names)) for name, names in (("sent", sent), ("known", known))}
    raise RequestError(
        "INVALID_ARGUMENT",
        f"input size does not match signature: {len(sent)}!={len(known)} len({{{listed['sent']}}}) !="
        f" len({{{listed['known']}}}). Sent extra: {{{','.join(sorted(sent - known))}}}."
        f" Missing but required: {{{','.join(sorted(known - sent))}}}.",
    )


def wanted_outputs(signature: meta_graph_pb2.SignatureDef, output_filter: Sequence[str]) -> list[str]:
    """The outputs that a request names, or all."""
    seen: set[str] = set()
    for alias in output_filter:
        if alias not in signature.outputs:
            known = ",".join(sorted(signature.outputs))
            raise RequestError(
                "INVALID_ARGUMENT",
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set {{{known}}}.",
            )
        if alias in seen:
            raise RequestError("INVALID_ARGUMENT", f"duplicate output tensor alias: {alias}")
        seen.add(alias)
    return sorted(output_filter) or sorted(signature.outputs)  # in one order: each other one would be kept as its own run


def _spec(lease: Lease, signature_name: str) -> model_pb2.ModelSpec:
    version = wrappers_pb2.Int64Value(value=lease.version)
    return model_pb2.ModelSpec(name=lease.model, version=version, signature_name=signature_name)


def _model_name(request: Any) -> str:
    if isinstance(request, inference_pb2.MultiInferenceRequest):
        return request.tasks[0].model_spec.name if request.tasks else ""
    return request.model_spec.name
