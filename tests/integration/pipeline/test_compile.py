"""The pipeline as Kubeflow Pipelines and Vertex are given it: by Kubeflow's own schema, and by what it means."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from click.testing import CliRunner
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2 as kfp_spec
from lines import Line
from spec_executor import read_spec

from bertline.pipeline.cli import main

RESOURCES = {"default": {"cpu": 2, "memory": 4}, "Trainer": {"cpu": 8, "memory": 32.5, "gpus": 2}}


def bertline(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    made = Line(tmp_path_factory.mktemp("line"))
    config = yaml.safe_load(made.config.read_text())
    config["cluster"] = {"image": "registry.example/bertline:7", "retries": 3, "resources": RESOURCES}
    made.config.write_text(yaml.safe_dump(config))
    return made


def compiled(line, engine, out, *arguments):
    result = bertline("compile", line.config, "--engine", engine, "--root", "gs://bucket/line", "-o", out, *arguments)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def spec(line):
    return read_spec(compiled(line, "kubeflow", line.folder / "line.yaml"))


def executors(spec):
    deployment = kfp_spec.PipelineDeploymentConfig()
    return json_format.ParseDict(json_format.MessageToDict(spec.deployment_spec), deployment).executors


def test_every_step_is_a_container_that_open_source_kubeflow_can_run(spec):
    assert spec.schema_version == "2.1.0" and spec.pipeline_info.name == "tiny"
    assert spec.default_pipeline_root == "gs://bucket/line"
    found = executors(spec)
    assert len(found) == len(spec.root.dag.tasks) == 10
    for executor in found.values():
        assert executor.WhichOneof("spec") == "container", "no resolver and no importer"
        assert not executor.container.HasField("lifecycle"), "no driver"
        assert executor.container.image == "registry.example/bertline:7"
        assert list(executor.container.command) == ["python", "-m", "bertline.pipeline.orchestration.kubeflow_step"]
    beam = found["Ingest_executor"].container.args
    assert "--direct_running_mode=in_memory" in beam, "the arguments of Beam go with the steps that need them"


def test_data_goes_from_step_to_step_and_nothing_is_learned_before_the_gate(spec):
    tasks = spec.root.dag.tasks

    def source(task, name):
        found = tasks[task].inputs.artifacts[name].task_output_artifact
        return found.producer_task, found.output_artifact_key

    assert source("Trainer", "examples") == ("Transform", "transformed_examples")
    assert source("Evaluator", "model") == source("Pusher", "model") == ("Trainer", "model")
    assert source("Pusher", "blessing") == ("Evaluator", "blessing")
    assert source("Pusher", "served") == ("ServeCheck", "served")
    for task in ("Vocabulary", "Transform"):
        assert "ExampleValidator" in tasks[task].dependent_tasks
    for task in tasks.values():
        for name, given in task.inputs.artifacts.items():
            producer = spec.components[tasks[given.task_output_artifact.producer_task].component_ref.name]
            made = producer.output_definitions.artifacts[given.task_output_artifact.output_artifact_key]
            wanted = spec.components[task.component_ref.name].input_definitions.artifacts[name]
            assert made.artifact_type == wanted.artifact_type


def test_what_a_run_may_be_given_has_the_configs_values_by_default(spec):
    parameters = spec.root.input_definitions.parameters
    found = {name: (given.parameter_type, given.default_value) for name, given in parameters.items()}
    kinds = kfp_spec.ParameterType
    assert found["epochs"][0] == kinds.NUMBER_INTEGER and found["epochs"][1].number_value == 10
    assert found["learning-rate"][0] == kinds.NUMBER_DOUBLE and found["learning-rate"][1].number_value == 0.005
    assert found["data-path"][1].string_value.endswith("/reviews.csv")
    trainer, ingest = (spec.root.dag.tasks[name].inputs.parameters for name in ("Trainer", "Ingest"))
    assert trainer["epochs"].component_input_parameter == "epochs"
    assert trainer["learning_rate"].component_input_parameter == "learning-rate"
    assert ingest["path"].component_input_parameter == "data-path"


def test_resources_retries_and_caching(spec):
    found = executors(spec)
    trainer, pusher = (found[f"{name}_executor"].container.resources for name in ("Trainer", "Pusher"))
    assert (trainer.cpu_limit, trainer.resource_memory_limit) == (8, "32.5G")
    assert (trainer.accelerator.resource_type, trainer.accelerator.resource_count) == ("nvidia.com/gpu", "2")
    assert (pusher.resource_cpu_limit, pusher.memory_limit, pusher.accelerator.count) == ("2", 4, 0)
    for name, task in spec.root.dag.tasks.items():
        assert task.retry_policy.max_retry_count == 3
        assert task.caching_options.enable_cache == (name != "Ingest"), "the content of raw files is not in their names"


def test_nothing_of_this_machine_is_in_the_spec_but_the_data_that_the_config_names(spec, line):
    text = json_format.MessageToJson(spec).replace(str(line.folder / "reviews.csv"), "")
    assert str(line.folder) not in text and "gs://bucket/line/models/tiny" in text


def test_vertex_gets_a_job_with_its_own_names_for_gpus(line, tmp_path):
    job = json.loads(compiled(line, "vertex", tmp_path / "job.json").read_text())
    parsed = json_format.ParseDict(job, kfp_spec.PipelineJob())
    assert parsed.runtime_config.gcs_output_directory == "gs://bucket/line"
    spec = json_format.ParseDict(job["pipelineSpec"], kfp_spec.PipelineSpec())
    accelerator = executors(spec)["Trainer_executor"].container.resources.accelerator
    assert (accelerator.type, accelerator.count) == ("NVIDIA_TESLA_T4", 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "cluster.root: name a folder that every step sees"),
        (("--engine", "vertex", "--root", "/mnt/x"), "Vertex keeps its files in gs://"),
        (
            ("--root", "gs://b/x", "--set", "cluster.resources={Trainr: {cpu: 1}}"),
            "no step 'Trainr'; did you mean Trainer?",
        ),
        (("--root", "gs://b/x", "--set", "seeds=[1, 2]"), "an engine runs the pipeline once"),
        (("--engine", "tfjob", "--root", "gs://b/x"), "write pvc://CLAIM/FOLDER"),
        (("--root", "gs://b/x", "-o", "/no/such/folder/x.yaml"), "name a file that can be written by --out"),
    ],
)
def test_what_cannot_be_compiled_is_told(line, arguments, said):
    result = bertline("compile", line.config, "-o", line.folder / "not.yaml", *arguments)
    assert result.exit_code == 1 and said in result.output.replace("\n", " "), result.output
    assert not (line.folder / "not.yaml").exists()


def test_a_tfjob_trains_with_a_chief_that_runs_the_line_and_workers_beside_it(line, tmp_path):
    out = tmp_path / "job.yaml"
    arguments = ("--root", "pvc://shared/reviews", "--set", "cluster.workers=3", "-o", out)
    assert bertline("compile", line.config, "--engine", "tfjob", *arguments).exit_code == 0
    config, job = yaml.safe_load_all(out.read_text())
    chief, workers = (job["spec"]["tfReplicaSpecs"][kind] for kind in ("Chief", "Worker"))
    assert (job["kind"], chief["replicas"], workers["replicas"]) == ("TFJob", 1, 2)
    for member, command in ((chief, "run"), (workers, "worker")):
        assert member["restartPolicy"] == "ExitCode"
        (container,) = member["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow" and container["ports"][0]["name"] == "tfjob-port"
        assert container["command"] == ["bertline", command, "/config/line.yaml", "--workspace", "/workspace"]
        assert container["resources"]["limits"] == {"cpu": "8", "memory": "32.5G", "nvidia.com/gpu": 2}
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "workspace")
        assert mount["subPath"] == "reviews"
    written = tmp_path / "line.yaml"
    written.write_text(config["data"]["line.yaml"])
    from bertline.pipeline.settings.loader import load

    assert load(str(written)).training == load(str(line.config)).training


class Kubeflow(BaseHTTPRequestHandler):
    """As much of Kubeflow's REST interface as starting a run takes; keeps what it is told."""

    told: list[tuple[str, dict]] = []

    def do_GET(self):
        self._answer({"experiments": []} if "/experiments" in self.path else {"multi_user": False})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.told.append((self.path, body, self.headers.get("Authorization")))
        self._answer({"experiment_id": "e1", "run_id": "r1", "display_name": body.get("display_name")})

    def _answer(self, value):
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def kubeflow():
    Kubeflow.told = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Kubeflow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_run_is_started_with_its_parameters_and_its_address_is_printed(spec, line, kubeflow, monkeypatch, tmp_path):
    monkeypatch.setenv("KFP_TOKEN", "s3cret")
    monkeypatch.setenv("HOME", str(tmp_path))
    given = ("--parameter", "epochs=3", "--parameter", "data-path=gs://b/new=1.csv", "--root", "gs://b/other")
    result = bertline("submit", line.folder / "line.yaml", "--host", kubeflow, *given)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{kubeflow}/#/runs/details/r1\n" and "s3cret" not in result.output
    path, run, token = Kubeflow.told[-1]
    assert path.startswith("/apis/v2beta1/runs") and token == "Bearer s3cret"
    assert run["runtime_config"] == {
        "parameters": {"epochs": 3, "data-path": "gs://b/new=1.csv"},
        "pipeline_root": "gs://b/other",
    }
    sent = run["pipeline_spec"].get("pipeline_spec", run["pipeline_spec"])
    assert json_format.ParseDict(sent, kfp_spec.PipelineSpec()) == spec


@pytest.mark.parametrize(
    ("file", "arguments", "said"),
    [
        ("line.yaml", ("--parameter", "epoch=3"), "no parameter 'epoch'; did you mean epochs?"),
        ("line.yaml", ("--parameter", "epochs=many"), "epochs is a whole number"),
        ("line.yaml", (), "did not start the run"),
        ("tiny.yaml", (), "not a compiled pipeline"),
        ("none.yaml", (), "`bertline compile` writes such a file"),
    ],
)
def test_a_run_that_cannot_be_started_is_told(spec, line, file, arguments, said):
    result = bertline("submit", line.folder / file, "--host", "http://127.0.0.1:9", *arguments)
    assert result.exit_code == 1 and said in result.output.replace("\n", " "), result.output
