"""A stand-in for tensorflow_model_server: a process that reads its flags and files, and answers GetModelStatus over gRPC.

What it does is in the names of its models: `slow` is loaded when it was asked for a few times, `broken` cannot be loaded,
`silent` keeps the port shut, `brief` ends soon after it was loaded, and `dying` ends at once with a message.
"""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = r"""
import importlib.util, itertools, json, os, signal, sys, threading, time, types
from concurrent import futures

if "--version" in sys.argv:
    print("TensorFlow ModelServer: 2.16.1-rc0\nTensorFlow Library: 2.16.1")
    sys.exit(0)

import grpc
from bertline.serving.launch.config_files import read_batching, read_models, read_monitoring, read_tls

# The generated messages without the rest of TensorFlow: a package to import from whose __init__ is not run.
tensorflow = types.ModuleType("tensorflow")
tensorflow.__path__ = importlib.util.find_spec("tensorflow").submodule_search_locations
sys.modules["tensorflow"] = tensorflow
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

flags = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
models = [model.name for model in read_models(flags["model_config_file"]).model_config_list.config]
saw = {"flags": flags, "models": models}
if "batching_parameters_file" in flags:
    saw["max_batch_size"] = read_batching(flags["batching_parameters_file"]).max_batch_size
if "monitoring_config_file" in flags:
    saw["prometheus"] = read_monitoring(flags["monitoring_config_file"])
if "tensorflow_session_config_file" in flags:
    saw["session"] = open(flags["tensorflow_session_config_file"]).read()
with open(os.environ["STAND_IN_SAW"], "w") as file:
    json.dump(saw, file)

if "dying" in models:
    print("a first line", file=sys.stderr)
    print("Failed to start server. Error: the disk is on fire")
    sys.exit(255)

asked = itertools.count()

class Service(model_service_pb2_grpc.ModelServiceServicer):
    def GetModelStatus(self, request, context):
        name = request.model_spec.name
        if name not in models:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Could not find any versions of model {name}")
        response = get_model_status_pb2.GetModelStatusResponse()
        version = response.model_version_status.add(version=7, state="AVAILABLE")
        if name == "slow" and next(asked) < 3:
            version.state = version.LOADING
        if name == "broken":
            version.state = version.END
            version.status.error_code, version.status.error_message = 5, "there is no saved_model.pb"
        if name == "brief":
            threading.Timer(0.3, os._exit, [3]).start()
        return response

server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
model_service_pb2_grpc.add_ModelServiceServicer_to_server(Service(), server)
if "silent" not in models:
    address = f"0.0.0.0:{flags['port']}"
    if "ssl_config_file" in flags:
        tls = read_tls(flags["ssl_config_file"])
        pair = (tls.server_key, tls.server_cert)
        ready = grpc.ssl_server_credentials([pair], tls.custom_ca or None, tls.client_verify)
        server.add_secure_port(address, ready)
    else:
        server.add_insecure_port(address)
    server.start()

def end(*_):
    with open(os.environ["STAND_IN_SAW"] + ".ended", "w") as file:
        file.write("by SIGTERM")
    os._exit(0)

signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("Running ModelServer", flush=True)
while True:  # a wait without end can miss a signal that comes while it begins
    time.sleep(0.05)
"""


def install(folder: Path) -> Path:
    """Writes the stand-in as an executable of the real one's name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tensorflow_model_server"
    path.write_text(f"#!{sys.executable}\n{SCRIPT}")
    path.chmod(0o755)
    return path
