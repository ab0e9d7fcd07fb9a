"""The settings files of checkpoints, and the numbers of `EncoderSize` that they stand for."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bertline.models.checkpoints.source import read_json
from bertline.pipeline.core import checkpoint_formats as formats
from bertline.pipeline.core.checkpoint_formats import CONFIG, TF1_CONFIG
from bertline.pipeline.core.errors import BertlineError

# Hugging Face's key -> ours; those of the first group have no default that would be safe to assume.
_REQUIRED_KEYS = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "intermediate_size": "intermediate",
}
_OPTIONAL_KEYS = {
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "layer_norm_eps",
}
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_new", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
_PRESET_KEYS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "layers",
    "hidden_dim": "hidden",
    "num_heads": "heads",
    "intermediate_dim": "intermediate",
    "max_sequence_length": "max_positions",
    "num_segments": "segments",
}
# What a config of the family means by a key that it leaves out, where that is not BERT's meaning.
_FAMILY_DEFAULTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"pad_token_id": 1},
    "albert": {
        "hidden_act": "gelu_new", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "embedding_size": 128,
    },
}  # fmt: skip


def preset_tokenizer(folder: Path) -> dict[str, Any] | None:
    """What KerasHub says of a preset's tokenizer, in Hugging Face's words; None where it says nothing."""
    path = folder / "tokenizer.json"
    config = read_json(path).get("config") if path.is_file() else None
    return {"do_lower_case": bool(config.get("lowercase"))} if isinstance(config, dict) else None


def read_size(folder: str | Path) -> tuple[Path, dict[str, Any]]:
    """Reads what a checkpoint's settings say of its size.

    Returns:
      The file, and values for the fields of `EncoderSize`, of which only `activation` and `pruned` are checked.
    """
    folder = Path(folder)
    found = formats.look(folder)
    kind = formats.SAFETENSORS if found is None else found.format
    if found is not None and kind == formats.KERAS:
        return found.weights, _from_keras(found.weights)
    path = folder / (TF1_CONFIG if kind == formats.TF1 else CONFIG)
    if not path.is_file():
        formats.find(folder)  # says what is missing
    raw = read_json(path)
    reader: Callable[[Path, dict[str, Any]], dict[str, Any]] = from_hugging_face
    if kind == formats.TF1:
        reader = _from_tf1
    elif kind == formats.PRESET:
        reader = _from_preset
    return path, reader(path, raw)


def from_hugging_face(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """The size of a `config.json`: of BERT, or of its relatives RoBERTa and ALBERT."""
    family = raw.get("model_type", "bert")
    if family not in tuple(_FAMILY_DEFAULTS):  # a tuple: JSON may hold here what cannot be hashed
        raise BertlineError(f"{path}: model_type is {family!r}; known are {', '.join(_FAMILY_DEFAULTS)}.")
    raw = _FAMILY_DEFAULTS[family] | raw
    fixed = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    if family == "albert":
        fixed |= {"num_hidden_groups": 1, "inner_group_num": 1}
    for key, only in fixed.items():
        if raw.get(key, only) != only:
            raise BertlineError(f"{path}: {key} is {raw[key]!r}; only {only!r} can be loaded.")
    missing = [key for key in _REQUIRED_KEYS if key not in raw]
    if missing:
        raise BertlineError(f"{path}: {', '.join(missing)} missing; is it the config of a BERT model?")
    values = {ours: raw[theirs] for theirs, ours in (_REQUIRED_KEYS | _OPTIONAL_KEYS).items() if theirs in raw}
    values["activation"] = _activation(path, raw.get("hidden_act", "gelu"), _ACTIVATIONS)
    if raw.get("pruned_heads"):
        values["pruned"] = _pruned(path, raw["pruned_heads"], values["layers"], family)
    if family == "albert":
        values |= {"embedding": raw["embedding_size"], "shared_layers": True}
    if family == "roberta":
        values |= _roberta_positions(path, raw["pad_token_id"], values.get("max_positions", 512))
    return values


def to_hugging_face(size: Any) -> dict[str, Any]:
    """What `config.json` says of an `EncoderSize`: the opposite of `from_hugging_face`."""
    family = family_of(size)
    theirs = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    config = {
        "model_type": family,
        "position_embedding_type": "absolute",
        "hidden_act": theirs[size.activation],
        **{key: getattr(size, ours) for key, ours in (_REQUIRED_KEYS | _OPTIONAL_KEYS).items()},
    }
    if size.pruned:
        config["pruned_heads"] = {str(layer): list(heads) for layer, heads in enumerate(size.pruned) if heads}
    if family == "albert":
        config |= {"embedding_size": size.embedding, "num_hidden_groups": 1, "inner_group_num": 1}
    if family == "roberta":
        config |= {
            "pad_token_id": size.position_offset - 1,
            "max_position_embeddings": size.max_positions + size.position_offset,
        }
    return config


def to_tf1(size: Any) -> dict[str, Any]:
    """What `bert_config.json` says of an `EncoderSize`.

    The original knows one form of gelu and one layer_norm_eps, and skips keys that it does not know; ours are there for
    `load_size`, so that a way there and back alters nothing.
    """
    if family_of(size) != "bert" or size.pruned:
        raise BertlineError(
            "The original format has BERT itself, with all its heads, and no relative; choose another format."
        )
    config = to_hugging_face(size)
    del config["model_type"], config["position_embedding_type"]
    if config["hidden_act"] != "relu":
        config |= {"hidden_act": "gelu", "gelu_form": "erf" if size.activation == "gelu" else "tanh"}
    return config


def family_of(size: Any) -> str:
    """Which of Hugging Face's models an encoder of a size is; BertlineError if it is a mixture of several."""
    match (size.shared_layers, size.embedding is not None, size.position_offset > 0):
        case (False, False, False) if size.segments:
            return "bert"
        case (False, False, True) if size.segments:
            return "roberta"
        case (True, True, False) if size.segments and not size.pruned:
            return "albert"
    raise BertlineError(
        "No model of Hugging Face has this mixture of shared_layers, embedding, position_offset, segments and pruned; save"
        f" the encoder as a Keras model. Received: {size}"
    )


def _from_tf1(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    # google-research/bert computes "gelu" by tanh, since bee6030 of February 2019; the release of October 2018 had erf.
    # The files do not tell which code trained them, and the forms differ by less than 0.001: today's code decides.
    forms = {"tanh": "gelu_new", "erf": "gelu"}
    form = raw.get("gelu_form", "tanh")
    if form not in tuple(forms):
        raise BertlineError(f"{path}: gelu_form is {form!r}; known are {', '.join(forms)}.")
    activation = _activation(path, raw.get("hidden_act", "gelu"), {"gelu": forms[form], "relu": "relu"})
    return from_hugging_face(path, {**raw, "model_type": "bert", "hidden_act": "gelu"}) | {"activation": activation}


def _from_preset(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    config = raw.get("config")
    if raw.get("class_name") != "BertBackbone" or not isinstance(config, dict):
        raise BertlineError(
            f"{path}: class_name is {raw.get('class_name')!r}; of KerasHub's presets BertBackbone is known."
        )
    missing = [key for key in _PRESET_KEYS if key not in config]
    if missing:
        raise BertlineError(f"{path}: {', '.join(missing)} missing; save the preset again.")
    rate = config.get("dropout", 0.1)
    values = {ours: config[theirs] for theirs, ours in _PRESET_KEYS.items()}
    return values | {"dropout": rate, "attention_dropout": rate, "activation": "gelu_new"}  # KerasHub's gelu is by tanh


def _from_keras(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            raw = json.loads(archive.read("config.json"))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise BertlineError(f"{path}: not a whole Keras model ({error}); save it again.") from None
    sizes = [config["size"] for config in _encoder_configs(raw) if isinstance(config.get("size"), dict)]
    if len(sizes) != 1:
        raise BertlineError(f"{path}: {len(sizes)} encoders of Bertline in it; a checkpoint has one.")
    return sizes[0]


def _encoder_configs(raw: Any) -> Iterator[dict[str, Any]]:
    if isinstance(raw, dict):
        if raw.get("registered_name") == "bertline>Encoder" and isinstance(raw.get("config"), dict):
            yield raw["config"]
        for value in raw.values():
            yield from _encoder_configs(value)
    elif isinstance(raw, list):
        for value in raw:
            yield from _encoder_configs(value)


def _activation(path: Path, given: Any, known: Mapping[str, str]) -> str:
    if given not in tuple(known):
        raise BertlineError(f"{path}: hidden_act is {given!r}; known are {', '.join(known)}.")
    return known[given]


def _pruned(path: Path, given: Any, layers: Any, family: str) -> tuple[tuple[int, ...], ...]:
    """Hugging Face's {"0": [1, 2]} as a tuple for each layer."""
    if family == "albert":
        raise BertlineError(f"{path}: pruned_heads of an ALBERT cannot be loaded, because its layers share their heads.")
    rows: list[tuple[int, ...]] = [()] * layers if isinstance(layers, int) else []
    try:
        for layer, heads in given.items():
            if not 0 <= int(layer) < len(rows):
                raise ValueError
            rows[int(layer)] = tuple(heads)
    except (AttributeError, TypeError, ValueError):
        raise BertlineError(
            f"{path}: pruned_heads is {given!r}; it should be layer: [heads], layers 0 to {len(rows) - 1}."
        ) from None
    return tuple(rows)


def _roberta_positions(path: Path, pad: Any, rows: Any) -> dict[str, int]:
    """RoBERTa numbers positions from the one after the padding token's id; the rows up to there are no places for text."""
    if type(pad) is not int or type(rows) is not int or not 0 <= pad < rows - 1:
        raise BertlineError(
            f"{path}: pad_token_id is {pad!r}, max_position_embeddings {rows!r}; no position would be left."
        )
    return {"position_offset": pad + 1, "max_positions": rows - pad - 1}
