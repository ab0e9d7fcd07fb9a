"""All of asking a server that is not input and output: requests, their parts, and what the replies mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertline.models.responses.base import A, ResponseSpec
from bertline.models.responses.types import KINDS
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.client.recognition import Signature, TensorSpec
from bertline.serving.client.retry import ModelAddress, ServingError
from bertline.serving.client.rows import joined, parts, row_sizes
from bertline.serving.client.wire import MESSAGES, as_array, fill_tensor, read_tensor, type_name
from bertline.serving.contract import DEFAULT_SIGNATURE

MEGABYTE = 1 << 20
_ENVELOPE = 4096
"""Bytes of a request beside its tensors: names, shapes and types."""
_SIGNATURES = "signature_def"
_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


@dataclass(frozen=True)
class Answers:
    """The outputs of a signature: strings are arrays of bytes, in UTF-8 if the model keeps to it."""

    outputs: Mapping[str, np.ndarray]
    version: int | None = None
    """The version of the model that answered; None where the server does not say it."""


class RowPrediction(NamedTuple):
    """The outputs of a signature for one row."""

    outputs: dict[str, Any]
    version: int | None


@dataclass(frozen=True)
class VersionStatus:
    version: int
    state: str
    """START, LOADING, AVAILABLE, UNLOADING, END or UNKNOWN."""
    error_code: int = 0
    error_message: str = ""


@dataclass(frozen=True)
class Metadata:
    """What a model takes and gives, by the names of its signatures."""

    signatures: Mapping[str, Signature]
    version: int | None = None


@dataclass(frozen=True)
class ClientTls:
    """Certificates and key in PEM. Without a CA those of the system are trusted."""

    ca: bytes | None = None
    cert: bytes | None = None
    """Of the client, where the server wants one; with its key."""
    key: bytes | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise BertlineError("a client's certificate and its key go together; give both or none.")

    @classmethod
    def read(cls, *, ca: str | None = None, cert: str | None = None, key: str | None = None) -> ClientTls:
        try:
            return cls(*(Path(path).read_bytes() if path else None for path in (ca, cert, key)))
        except OSError as error:
            raise BertlineError(f"{error.filename}: cannot be read: {error.strerror}; check the path.") from None


def checked_address(address: str) -> str:
    """Refuses what gRPC would take for the name of a host, and look for until the deadline."""
    if address.startswith(("http://", "https://")):
        raise BertlineError(f"{address}: requests go by gRPC; give HOST:PORT, with the gRPC port and without http.")
    if address.startswith(("unix:", "dns:", "ipv4:", "ipv6:", "xds:")):
        return address
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or ":" in host and not host.startswith("["):
        raise BertlineError(f"{address}: not HOST:PORT; give it as localhost:8500.")
    return address


class Asked(NamedTuple):
    """The requests that one call makes."""

    requests: list[Any]
    rows: list[int] | None
    """Of each request; None where it cannot be split, and is one."""


@dataclass(frozen=True)
class Asking:
    """Which model is asked, and what bounds a message."""

    place: ModelAddress
    max_batch: int = 64
    max_message_bytes: int = 32 * MEGABYTE

    def __post_init__(self) -> None:
        place = self.place
        if not place.model:
            raise BertlineError(f"{place.address}: a server has models by their names; give one.")
        if place.version is not None and place.label is not None:
            raise BertlineError(f"{place}: a version and a label name two; give one of them.")
        if self.max_batch < 1 or self.max_message_bytes < 2 * _ENVELOPE:
            given = f"max_batch={self.max_batch}, max_message_bytes={self.max_message_bytes}"
            raise ValueError(f"max_batch must be at least 1, max_message_bytes at least {2 * _ENVELOPE}. Received: {given}")

    def fill_spec(self, spec: Any, *, signature: str = "", any_version: bool = False) -> None:
        spec.name, spec.signature_name = self.place.model, signature
        if self.place.version is not None and not any_version:
            spec.version.value = self.place.version
        if self.place.label is not None and not any_version:
            spec.version_label = self.place.label

    def predict(
        self, inputs: Mapping[str, Any], signature: str = DEFAULT_SIGNATURE, output_filter: Sequence[str] = ()
    ) -> Asked:
        """A request for every `max_batch` rows, or fewer where they are large."""
        arrays = {name: as_array(value) for name, value in inputs.items()}
        sizes = row_sizes(arrays)
        largest = self.max_message_bytes - _ENVELOPE
        for number, size in enumerate(sizes or ()):
            if size > largest:
                raise ServingError(
                    "RESOURCE_EXHAUSTED",
                    f"{self.place}: example {number + 1} has {size:,} bytes, above the limit of"
                    f" {self.max_message_bytes:,} for a message; shorten it, or set max_message_bytes.",
                )
        cuts = [slice(None)] if not sizes else parts(sizes, self.max_batch, largest)
        requests = []
        for cut in cuts:
            request = MESSAGES["PredictRequest"](output_filter=output_filter)
            self.fill_spec(request.model_spec, signature=signature)
            for name, array in arrays.items():
                fill_tensor(request.inputs[name], array[cut] if sizes else array)
            requests.append(request)
        return Asked(requests, [cut.stop - cut.start for cut in cuts] if sizes else None)

    def answers(self, asked: Asked, replies: Sequence[Any]) -> Answers | None:
        """The replies as one; None where not the same version gave them all: its rows would not be alike."""
        found = [self._outputs(reply) for reply in replies]
        versions = {_version(reply) for reply in replies}
        if len(versions) > 1:
            return None
        (version,) = versions
        if len(found) == 1:
            return Answers(found[0], version)
        rows = asked.rows or []
        for outputs, count in zip(found, rows, strict=True):
            self._check_rows(outputs, count)
        return Answers({name: joined([outputs[name] for outputs in found]) for name in found[0]}, version)

    def _outputs(self, reply: Any) -> dict[str, np.ndarray]:
        found = {}
        for name in sorted(reply.outputs):
            try:
                found[name] = read_tensor(reply.outputs[name], self.max_message_bytes)
            except ValueError as error:
                told = f"{self.place}: the output {name} cannot be read: {error}; leave it out (output_filter)."
                raise ServingError("DATA_LOSS", told) from None
        return found

    def _check_rows(self, outputs: Mapping[str, np.ndarray], count: int) -> None:
        for name, value in outputs.items():
            if value.shape[:1] != (count,):
                raise ServingError(
                    "FAILED_PRECONDITION",
                    f"{self.place}: {name} has the shape {list(value.shape)}, which is not one value for each of {count}"
                    " examples; leave it out (output_filter), or send no more examples than max_batch by predict.",
                )

    def changing_versions(self) -> ServingError:
        return ServingError(
            "ABORTED", f"{self.place}: two versions responded to parts of one request; name one by version."
        )

    def rows(self, answers: Answers, count: int) -> list[RowPrediction]:
        self._check_rows(answers.outputs, count)
        return [
            RowPrediction({name: value[number] for name, value in answers.outputs.items()}, answers.version)
            for number in range(count)
        ]

    def read(self, rows: Sequence[RowPrediction], kind: ResponseSpec[A]) -> list[A]:
        """The answer to each row, in the user's terms."""
        names = set(rows[0].outputs) if rows else set(kind.outputs)
        if not set(kind.outputs) <= names:
            given = list(dict.fromkeys(other.call for other in KINDS if set(other.outputs) <= names))
            remedy = f"use {given[0]}" if len(given) == 1 else "use predict"
            shown = ", ".join(sorted(names))
            raise ServingError(
                "FAILED_PRECONDITION",
                f"{self.place}: it returns {shown}, which is not a response to {kind.call}; {remedy}.",
            )
        return [replace(kind.read(row.outputs), version=row.version) for row in rows]

    def status(self, *, any_version: bool = False) -> Any:
        request = MESSAGES["GetModelStatusRequest"]()
        self.fill_spec(request.model_spec, any_version=any_version)
        return request

    def metadata(self) -> Any:
        request = MESSAGES["GetModelMetadataRequest"](metadata_field=[_SIGNATURES])
        self.fill_spec(request.model_spec)
        return request


def statuses(reply: Any) -> list[VersionStatus]:
    return [
        VersionStatus(
            found.version, _STATES.get(found.state, "UNKNOWN"), found.status.error_code, found.status.error_message
        )
        for found in reply.model_version_status
    ]


def available(versions: Sequence[VersionStatus]) -> list[int]:
    return sorted(found.version for found in versions if found.state == "AVAILABLE")


def metadata_of(reply: Any) -> Metadata:
    packed = MESSAGES["SignatureDefMap"].FromString(reply.metadata[_SIGNATURES].value)
    signatures = {
        name: Signature(specs_of(found.inputs), specs_of(found.outputs), found.method_name)
        for name, found in sorted(packed.signature_def.items())
    }
    return Metadata(signatures, _version(reply))


def specs_of(infos: Any) -> dict[str, TensorSpec]:
    """The tensors of a signature, told by messages of either making."""
    return {name: _spec(info) for name, info in sorted(infos.items())}


def _spec(info: Any) -> TensorSpec:
    shape = info.tensor_shape
    sizes = None if shape.unknown_rank else tuple(dim.size if dim.size >= 0 else None for dim in shape.dim)
    return TensorSpec(type_name(info.dtype), sizes)


def _version(reply: Any) -> int | None:
    return reply.model_spec.version.value if reply.model_spec.HasField("version") else None
