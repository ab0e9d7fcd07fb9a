"""Clients that others wrote, each in an environment of its own, against the embedded server.

`ovmsclient` (Intel's, for OpenVINO's model server) and `min-tfs-client` (Zendesk's) bring protos of their own along: what
they can ask and read is the protocol, and not our reading of it. Each asks in its own process for the status and the
metadata where it can, and for predictions of numbers and of texts; what it gets is compared with the model's own answer.
One line is printed for each, and the exit code is 1 after a difference.

    python tests/benchmarks/independent_clients.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bertline.pipeline.core.environment import prepare

prepare()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import served_models  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow_serving.config import model_server_config_pb2  # noqa: E402

from bertline.serving.embedded.server import Server  # noqa: E402
from bertline.serving.settings import ServerSettings  # noqa: E402

NUMBERS = [1.0, 2.0, -5.5, 1e6]
TEXTS = ["one", "", "zwölf", "a longer text, with \U0001f600"]

# Each prints one JSON object. The models are `m`, of numbers, and `texts`; both have one version, 7.
OVMS = r"""
import json, sys
import numpy as np
from ovmsclient import ModelNotFoundError, make_grpc_client, make_http_client

grpc_port, rest_port, numbers, texts = json.loads(sys.argv[1])
client = make_grpc_client(f"127.0.0.1:{grpc_port}")

def plain(value):
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value

said = {}
try:
    client.predict({"x": np.array(numbers, np.float32)}, "m")
except ModelNotFoundError as error:  # untold, it asks for version 0, and not for the newest
    said["without a version"] = "Specific(m, 0)" in str(error)
status = client.get_model_status("m", 7)
said["status"] = {str(version): one["state"] for version, one in status.items()}
metadata = client.get_model_metadata("m", 7)
said["metadata"] = [metadata["model_version"], metadata["inputs"], metadata["outputs"]]
said["numbers"] = plain(client.predict({"x": np.array(numbers, np.float32)}, "m", 7))
said["texts"] = {name: plain(value) for name, value in client.predict({"text": texts}, "texts", 7).items()}
web = make_http_client(f"127.0.0.1:{rest_port}")
said["status by REST"] = {str(version): one["state"] for version, one in web.get_model_status("m", 7).items()}
said["numbers by REST"] = plain(web.predict({"x": np.array(numbers, np.float32)}, "m", 7))
found = web.predict({"text": texts}, "texts", 7)
said["texts by REST"] = {name: plain(value) for name, value in found.items()}
print(json.dumps(said))
"""

MIN_TFS = r"""
import json, sys
import numpy as np
from min_tfs_client.requests import TensorServingClient
from min_tfs_client.tensors import tensor_proto_to_ndarray

grpc_port, rest_port, numbers, texts = json.loads(sys.argv[1])
client = TensorServingClient("127.0.0.1", grpc_port)
said = {}
for name, version in (("", 7), (" of the newest", None)):
    answer = client.predict_request("m", {"x": np.array(numbers, np.float32)}, model_version=version)
    said["version" + name] = answer.model_spec.version.value
    said["numbers" + name] = tensor_proto_to_ndarray(answer.outputs["y"]).tolist()
    answer = client.predict_request("texts", {"text": np.array(texts)}, model_version=version)
    said["texts" + name] = {
        "upper": [text.decode() for text in answer.outputs["upper"].string_val],
        "length": tensor_proto_to_ndarray(answer.outputs["length"]).tolist(),
    }
print(json.dumps(said))
"""
# The second one's generated code is older than protobuf 3.21.
CLIENTS = {"ovmsclient": (["ovmsclient"], OVMS), "min-tfs-client": (["min-tfs-client", "protobuf<3.21"], MIN_TFS)}


def expected(folder: Path) -> dict[str, object]:
    """By the names that the clients give: what the models say when TensorFlow itself runs them."""
    halves = tf.saved_model.load(str(folder / "m" / "7")).signatures["serving_default"]
    texts = tf.saved_model.load(str(folder / "texts" / "7")).signatures["serving_default"]
    numbers = halves(x=tf.constant(NUMBERS))["y"].numpy().tolist()
    of_texts = {name: value.numpy() for name, value in texts(text=tf.constant(TEXTS)).items()}
    spelled = {"upper": [text.decode() for text in of_texts["upper"].tolist()], "length": of_texts["length"].tolist()}
    return {
        "without a version": True,
        "status": {"7": "AVAILABLE"},
        "status by REST": {"7": "AVAILABLE"},
        "metadata": [7, {"x": {"shape": [-1], "dtype": "DT_FLOAT"}}, {"y": {"shape": [-1], "dtype": "DT_FLOAT"}}],
        "version": 7,
        "version of the newest": 7,
        "numbers": numbers,
        "numbers by REST": numbers,
        "numbers of the newest": numbers,
        "texts": spelled,
        "texts by REST": spelled,
        "texts of the newest": spelled,
    }


def install(folder: Path, packages: list[str]) -> Path:
    """An environment with packages; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = subprocess.run([python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(packages)} cannot be installed here: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
        )
    return python


def ask(python: Path, script: str, ports: tuple[int, int | None]) -> dict[str, object]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PROTOCOL_"))}
    command = [python, "-c", script, json.dumps([*ports, NUMBERS, TEXTS])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=python.parent, timeout=300)
    if done.returncode:
        return {"it ended with": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = model_server_config_pb2.ModelServerConfig()
        for name, default in (("m", served_models.HALVES), ("texts", served_models.TEXTS)):
            (folder / name).mkdir()
            served_models.save(folder / name / "7", default=default)
            config.model_config_list.config.add(name=name, base_path=str(folder / name))
        truth, differ = expected(folder), False
        server = Server(ServerSettings(models=config, port=0, rest_api_port=0))
        server.start()
        try:
            for name, (packages, script) in CLIENTS.items():
                said = ask(install(folder / name, packages), script, (server.port, server.rest_port))
                wrong = {about: found for about, found in said.items() if about not in truth or truth[about] != found}
                differ = differ or bool(wrong) or not said
                print(
                    f"{name}: " + (f"differs: {wrong}" if wrong else f"as the model itself: {', '.join(said)}"), flush=True
                )
        finally:
            server.stop(5)
    sys.exit(differ)


if __name__ == "__main__":
    main()
