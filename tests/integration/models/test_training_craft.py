"""The options of a training, each against what it promises; every one of them survives a kill exactly."""

import time
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_training import CONTEXT, TASK, losses, rows, settings

from bertline.components.trainer.rows import with_class_weights
from bertline.models.adapters.gradient_checkpointing import recompute_layers
from bertline.models.data import batching
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.training.distribution import join
from bertline.models.training.loop import train
from bertline.models.training.optimizer import Optimizer
from bertline.models.training.precision import dtype_policy
from bertline.models.training.step import _accumulated, evaluator, step_function
from bertline.models.training.tensorboard import Curves
from bertline.pipeline.config import TrainingConfig
from bertline.pipeline.core.errors import BertlineError

SIZE = EncoderSize(vocab_size=40, layers=1, hidden=8, heads=2, intermediate=16)


def build(dropout=0.1, layers=1):
    encoder = Encoder(replace(SIZE, layers=layers, dropout=dropout, attention_dropout=dropout), seed=3)
    return TASK.model.build(encoder, CONTEXT, dropout, 3)


def build_without_noise():
    return build(0.0)


def flipped(corpus):
    """Whoever learns the training rows does worse and worse on these."""
    return batching.Corpus(corpus.values, corpus.starts, {"label_id": 1 - corpus.targets["label_id"]})


def values(model):
    return {variable.path: variable.numpy() for variable in model.variables}


def trained_weights(model):
    return {variable.path: variable.numpy() for variable in model.trainable_variables}


def assert_close(ours, theirs, **tolerance):
    assert ours.keys() == theirs.keys()
    for path, value in ours.items():
        np.testing.assert_allclose(value, theirs[path], err_msg=path, **tolerance)


def events(folder):
    """What TensorBoard reads: name, step and value of each scalar."""
    found = []
    for path in folder.iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            found += [(value.tag, event.step, float(tf.make_ndarray(value.tensor))) for value in event.summary.value]
    assert len(set(found)) == len(found)
    return set(found)


def numbers(history):
    names = ("loss", "accuracy", "learning_rate", "tokens_per_second", "eval_loss", "eval_accuracy")
    return {
        (name, record["step"], float(np.float32(record[name]))) for record in history for name in names if name in record
    }


class Stop(Exception):
    pass


EVERY_OPTION = {
    "lamb, cosine, layer decay, parts, best weights, early stop, drawn rows": {
        "optimizer": "lamb",
        "schedule": "cosine",
        "layer_decay": 0.8,
        "gradient_accumulation_steps": 4,
        "restore_best": True,
        "early_stopping_patience": 2,
        "learning_rate": 3e-2,
        "epochs": 8,
        "sampling": "balanced",
    },
    "adapters, reference Adam, inverse root, bfloat16, recomputed layers": {
        "lora_rank": 2,
        "optimizer": "adam_reference",
        "schedule": "inverse_sqrt",
        "precision": "bfloat16",
        "gradient_checkpointing": True,
    },
    "float16, constant rate, curves": {"precision": "float16", "schedule": "constant", "tensorboard": True},
}


@pytest.mark.parametrize(
    "options",
    [pytest.param(options, marks=[pytest.mark.full] * bool(place)) for place, options in enumerate(EVERY_OPTION.values())],
    ids=EVERY_OPTION,
)
def test_a_training_that_was_stopped_ends_with_the_weights_of_one_that_was_not(options, tmp_path):
    chosen = settings(**{"epochs": 3, "buckets": (20,), "checkpoint_steps": 2, **options})
    data = rows(40), flipped(rows(40))

    def stop_at(record):
        if record.step == 6 and hasattr(record, "loss"):
            raise Stop

    whole = train(build, TASK, chosen, *data, checkpoint_folder=tmp_path / "whole")
    with pytest.raises(Stop):
        train(build, TASK, chosen, *data, checkpoint_folder=tmp_path / "cut", report=stop_at)
    resumed = train(build, TASK, chosen, *data, checkpoint_folder=tmp_path / "cut")
    assert resumed.resumed_at == 4 and whole.resumed_at == 0
    assert (resumed.steps, resumed.kept_step) == (whole.steps, whole.kept_step)
    assert losses(resumed) == losses(whole)
    theirs = values(whole.model)
    for path, value in values(resumed.model).items():
        np.testing.assert_array_equal(value, theirs[path], err_msg=path)
    if chosen.early_stopping_patience:
        assert whole.kept_step < whole.steps < 8 * 3  # or it would show nothing of either option
    if chosen.tensorboard:
        assert events(tmp_path / "tensorboard" / "cut") == numbers(resumed.history)


def test_the_settings_reach_the_optimizer(tmp_path):
    """The first step of an Adam without correction is 0.1 / √0.001 learning rates long wherever there is a gradient."""

    def with_large_gradients():
        model = build_without_noise()
        for kernel in (model.head.kernel, model.encoder.pooler.kernel):
            kernel.assign(kernel * 100)
        return model

    options = {"optimizer": "adam_reference", "layer_decay": 0.5, "weight_decay": 0.0, "clip_norm": 1e6}
    chosen = settings(epochs=1, warmup_ratio=0.0, learning_rate=1e-3, **options)
    before = trained_weights(with_large_gradients())
    result = train(with_large_gradients, TASK, chosen, rows(16), rows(4), checkpoint_folder=tmp_path)
    longest = {path: np.abs(value - before[path]).max() for path, value in trained_weights(result.model).items()}
    one = 1e-3 * 0.1 / np.sqrt(0.001)
    assert longest["head/bias"] == pytest.approx(one, rel=0.01)
    assert longest["encoder/layer_0/contract/bias"] == pytest.approx(one / 2, rel=0.01)
    assert longest["encoder/embeddings/norm/beta"] == pytest.approx(one / 4, rel=0.01)


def test_parts_of_a_batch_give_the_weights_of_the_whole(tmp_path):
    """Of 22 rows the last batch has 6: of its four parts one holds nothing but filling."""
    found = []
    for parts in (1, 4):
        chosen = settings(
            epochs=1,
            batch_size=8,
            gradient_accumulation_steps=parts,
            schedule="inverse_sqrt",
            warmup_ratio=0.0,
            buckets=(20,),
            learning_rate=1e-3,
        )
        result = train(build_without_noise, TASK, chosen, rows(22), rows(8), checkpoint_folder=tmp_path / str(parts))
        rates = [record["learning_rate"] for record in result.history if "loss" in record]
        np.testing.assert_allclose(rates, 1e-3 / np.sqrt([1, 2, 3]), rtol=1e-5)
        found.append((losses(result), trained_weights(result.model)))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    assert_close(found[0][1], found[1][1], atol=1e-6, rtol=0)


def test_parts_count_by_the_weights_of_their_rows():
    """As for losses that count tokens: the rows' shares are as unequal as can be, and one part has almost all of it."""
    data = rows(8)
    (batch,) = batching.batches(data, [batching.Batch(np.arange(8), 20)], 8)
    batch["weight"] = tf.constant([0.4, 0.3, 0.2, 0.05, 0.02, 0.02, 0.01, 0.0])
    found = []
    for parts in (1, 4):
        model = build_without_noise()
        optimizer = Optimizer(
            model.trainable_variables, peak=1e-3, total_steps=9, warmup=0.0, weight_decay=0.01, clip_norm=1.0
        )
        chosen = settings(batch_size=8, gradient_accumulation_steps=parts)
        loss, _, tokens = step_function(join(), model, TASK, optimizer, data, chosen)(batch)
        found.append((float(loss), trained_weights(model)))
        assert int(tokens) == data.lengths[:7].sum()
    logits = build_without_noise()(batch)
    assert found[0][0] == pytest.approx(
        float(tf.reduce_sum(batch["weight"] * TASK.objective.loss(logits, batch))), abs=1e-6
    )
    assert found[1][0] == pytest.approx(found[0][0], abs=1e-6)
    assert_close(found[1][1], found[0][1], atol=1e-6, rtol=0)


def test_a_part_begins_when_the_one_before_is_through():
    """Two of them at once would take the memory that parts are there to save."""
    seen = []

    def look(weights):
        for _ in range(2):
            seen.append(float(weights[0]))
            time.sleep(0.05)
        return weights

    def gradients(part):
        looked = tf.numpy_function(look, [part["weight"]], tf.float32, stateful=False)  # stateful ones wait in any case
        return [tf.reduce_sum(looked)], tf.zeros(2)

    @tf.function(autograph=False)
    def step(weights):
        return _accumulated(gradients, {"weight": weights}, 4)

    (total,), _ = step(tf.range(4.0))
    assert seen == [0, 0, 1, 1, 2, 2, 3, 3] and float(total) == 6


def test_parts_have_to_be_equal():
    with pytest.raises(ValueError, match="batch_size=8 cannot be divided into 3 equal parts"):
        TrainingConfig(batch_size=8, gradient_accumulation_steps=3)


STOPPING = {"epochs": 12, "learning_rate": 3e-2, "buckets": (20,), "early_stopping_patience": 3, "restore_best": True}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A training whose evaluation examples contradict the others, and its folder."""
    folder = tmp_path_factory.mktemp("stopped")
    return train(build, TASK, settings(**STOPPING), rows(32), flipped(rows(32)), checkpoint_folder=folder), folder


def test_training_stops_when_the_evaluation_loss_has_not_fallen_for_so_many_epochs(stopped):
    result, _ = stopped
    found = [record["eval_loss"] for record in result.history if "eval_loss" in record]
    assert len(found) == int(np.argmin(found)) + 1 + 3 < 12
    assert result.steps == 2 * len(found)


def test_the_best_weights_are_those_of_the_lowest_evaluation_loss(stopped):
    result, _ = stopped
    found = {record["step"]: record["eval_loss"] for record in result.history if "eval_loss" in record}
    best = min(found, key=found.get)
    assert result.kept_step == best < result.steps
    loss, _ = evaluator(join(), result.model, TASK, flipped(rows(32)), settings())()
    assert loss == pytest.approx(found[best], rel=1e-6) and loss < found[result.steps]


def test_a_stopped_training_that_is_taken_up_again_does_not_go_on(stopped):
    result, folder = stopped
    again = train(build, TASK, settings(**STOPPING), rows(32), flipped(rows(32)), checkpoint_folder=folder)
    assert again.resumed_at == again.steps == result.steps
    assert_close(values(again.model), values(result.model), atol=0, rtol=0)


@pytest.mark.parametrize("option", [{"restore_best": True}, {"early_stopping_patience": 1}], ids=str)
def test_without_evaluation_examples_there_is_no_best(option, tmp_path):
    with pytest.raises(BertlineError, match="need evaluation examples, and none has a usable"):
        train(build, TASK, settings(**option), rows(16), rows(0), checkpoint_folder=tmp_path)


def test_adapters_leave_a_plain_model_that_differs_by_as_many_ranks(tmp_path):
    chosen = settings(epochs=2, lora_rank=2, buckets=(20,))
    result = train(build, TASK, chosen, rows(48), rows(16, seed=1), checkpoint_folder=tmp_path)
    before, after = values(build()), values(result.model)
    assert before.keys() == after.keys()
    changed = {path for path, value in after.items() if not np.array_equal(value, before[path]) and "seed" not in path}
    adapted = {f"encoder/layer_0/attention/{name}/kernel" for name in ("query", "value")}
    assert changed == adapted | {"encoder/pooler/kernel", "encoder/pooler/bias", "head/kernel", "head/bias"}
    for path in adapted:
        assert np.linalg.matrix_rank(after[path] - before[path], tol=1e-6) == 2
    evaluation_loss = evaluator(join(), result.model, TASK, rows(16, seed=1), chosen)()[0]
    assert evaluation_loss == pytest.approx(result.history[-1]["eval_loss"], abs=1e-5)


def test_recomputed_layers_have_the_gradients_of_kept_ones():
    """With dropout: the second pass must drop what the first one dropped, and the counters go on as ever."""
    (batch,) = batching.batches(rows(8), [batching.Batch(np.arange(8), 20)], 8)
    found = []
    for recompute in (False, True):
        model = build(0.3, layers=2)
        if recompute:
            recompute_layers(model.encoder.distinct_layers)

        @tf.function(autograph=False)
        def gradients(model=model):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(TASK.objective.loss(model(batch, training=True), batch))
            return tape.gradient(loss, [weight.value for weight in model.trainable_variables])

        twice = [*gradients(), *gradients()]
        found.append(([tf.convert_to_tensor(gradient).numpy() for gradient in twice], model.non_trainable_variables))
    for ours, theirs in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    half = len(found[0][0]) // 2
    assert np.abs(found[0][0][0] - found[0][0][half]).max() > 1e-3  # the noise of the second time was another
    for ours, theirs in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_half_precision_trains_float32_weights_to_about_the_same_losses(tmp_path):
    found = {}
    for precision in ("float32", "bfloat16", "float16"):
        chosen = settings(epochs=1, precision=precision, buckets=(20,))
        folder = tmp_path / precision
        result = train(build_without_noise, TASK, chosen, rows(48), rows(16), checkpoint_folder=folder)
        assert {variable.dtype for variable in result.model.trainable_variables} == {"float32"}
        (batch,) = batching.batches(rows(4), [batching.Batch(np.arange(4), 20)], 4)
        assert result.model(batch).dtype == tf.float32
        found[precision] = losses(result)
    for precision in ("bfloat16", "float16"):
        assert found[precision] != found["float32"]
        np.testing.assert_allclose(found[precision], found["float32"], rtol=0.02)
    assert keras.config.dtype_policy().name == "float32"


def test_auto_chooses_half_precision_only_where_every_gpu_has_bfloat16():
    assert dtype_policy("auto", []) == "float32"
    assert dtype_policy("auto", [(8, 0), (9, 0)]) == "mixed_bfloat16"
    assert dtype_policy("auto", [(7, 5), (9, 0)]) == "float32"
    assert dtype_policy("float16", []) == "mixed_float16" and dtype_policy("float32", [(9, 0)]) == "float32"


def test_curves_are_replaced_by_those_of_the_history(tmp_path):
    """What a killed training wrote after its last checkpoint is done again, and must not stand there twice."""
    history = [{"step": 1, "total_steps": 9, "epoch": 0.5, "loss": 0.75}, {"step": 2, "epoch": 1, "eval_loss": 0.5}]
    first = Curves(tmp_path / "run", history)
    first.write({"step": 3, "loss": 0.25})
    first.close()
    assert events(tmp_path / "run") == {("loss", 1, 0.75), ("eval_loss", 2, 0.5), ("loss", 3, 0.25)}
    second = Curves(tmp_path / "run", history)
    second.write({"step": 3, "loss": 0.125})
    second.close()
    assert events(tmp_path / "run") == {("loss", 1, 0.75), ("eval_loss", 2, 0.5), ("loss", 3, 0.125)}


def skewed(count=320, rare=16, seed=0):
    """One row in twenty is of class 1, and what tells it apart is seen in one row in four of the other class too."""
    corpus = rows(count, seed)
    values, labels = np.full_like(corpus.values, 8), np.arange(count) % (count // rare) == 0  # nothing to learn by heart
    alike = np.random.default_rng(seed).random(count) < 0.25
    for start, label, same in zip(corpus.starts, labels, alike, strict=False):
        values[start + 1] = 7 if label or same else 6
    return replace(corpus, values=values, targets={"label_id": labels.astype(np.int64)})


@pytest.mark.parametrize("changes", [{}, {"sampling": "balanced"}, {"class_weights": "balanced"}])
def test_a_rare_class_is_found_where_it_weighs_more_or_is_drawn_oftener(tmp_path, changes):
    training = settings(epochs=6, learning_rate=1e-2, **changes)
    corpus = skewed()
    if training.class_weights:
        corpus = with_class_weights(TASK, corpus, training.class_weights, ("no", "yes"))
    result = train(build_without_noise, TASK, training, corpus, skewed(seed=1), checkpoint_folder=tmp_path)
    evaluation = skewed(seed=1)
    found = 0
    for batch in batching.batches(evaluation, batching.plan(evaluation.lengths, 16, (8, 16), seed=None), 16):
        answers = tf.argmax(result.model(batch), axis=-1)
        found += int(tf.reduce_sum(tf.cast((answers == 1) & (batch["label_id"] == 1) & (batch["weight"] > 0), tf.int32)))
    # It is likelier not to be there than to be, whatever is seen: only who looks for it finds it.
    assert found == (16 if changes else 0)


@pytest.mark.full
def test_a_training_on_drawn_rows_that_was_killed_ends_with_the_same_weights(tmp_path):
    training = settings(epochs=3, sampling="square_root", label_smoothing=0.1, checkpoint_steps=7)
    whole = train(build, TASK, training, skewed(), skewed(seed=1), checkpoint_folder=tmp_path / "whole")

    def stop(record):
        if getattr(record, "total_steps", 0) and record.step == 33:
            raise Stop

    with pytest.raises(Stop):
        train(build, TASK, training, skewed(), skewed(seed=1), checkpoint_folder=tmp_path / "killed", report=stop)
    again = train(build, TASK, training, skewed(), skewed(seed=1), checkpoint_folder=tmp_path / "killed")
    assert again.resumed_at == 28
    for path, value in values(whole.model).items():
        np.testing.assert_array_equal(value, values(again.model)[path], err_msg=path)
