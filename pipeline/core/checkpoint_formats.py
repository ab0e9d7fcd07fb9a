"""Which kind of checkpoint a folder holds. Imports nothing heavy, so that a wrong folder is told of at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bertline.pipeline.core.errors import BertlineError

WEIGHTS = "model.safetensors"
TORCH_WEIGHTS = "pytorch_model.bin"
KERAS_WEIGHTS = "model.keras"
PRESET_WEIGHTS = "model.weights.h5"
TF1_WEIGHTS = "bert_model.ckpt"
CONFIG = "config.json"
TF1_CONFIG = "bert_config.json"
VOCAB = "vocab.txt"
TOKENIZER = "tokenizer_config.json"
INDEX = ".index.json"

SAFETENSORS, TORCH, KERAS, PRESET, TF1 = FORMATS = ("safetensors", "pytorch", "keras", "keras-preset", "tf1")
TITLES = {
    SAFETENSORS: "Hugging Face, safetensors",
    TORCH: "Hugging Face, PyTorch's own file",
    KERAS: "Keras model",
    PRESET: "KerasHub preset",
    TF1: "original TensorFlow checkpoint",
}


@dataclass(frozen=True, kw_only=True)
class Found:
    """A checkpoint on disk."""

    format: str
    """One of `FORMATS`."""
    weights: Path
    """The file with the weights, or the one that says which files have them; for `tf1`, the common start of their names."""

    @property
    def folder(self) -> Path:
        return self.weights.parent


def vocabulary_in(folder: Path) -> Path | None:
    """The vocabulary that goes with a checkpoint, where Hugging Face has it or else KerasHub."""
    places = (folder / VOCAB, folder / "assets" / "tokenizer" / "vocabulary.txt")
    return next((place for place in places if place.is_file()), None)


def find(folder: str | Path) -> Found:
    """The checkpoint of a folder, or of one `.keras` file; BertlineError if there is none that can be read."""
    folder = Path(folder)
    found = look(folder)
    if found is not None:
        return found
    if not folder.exists():
        raise BertlineError(f"{folder} does not exist; name a checkpoint's folder.")
    if not folder.is_dir():
        raise BertlineError(f"{folder} is a file; name a checkpoint's folder, or a model that ends in .keras.")
    if (folder / CONFIG).is_file():
        raise BertlineError(f"{folder} has no {WEIGHTS}, nor {TORCH_WEIGHTS} or {PRESET_WEIGHTS}; fetch the weights too.")
    if (folder / TF1_CONFIG).is_file():
        raise BertlineError(f"{folder} has no {TF1_WEIGHTS}.index; fetch the weights too.")
    if list(folder.glob("*.index")):
        raise BertlineError(f"{folder} has no {TF1_CONFIG}; copy it from where the training began.")
    raise BertlineError(
        f"{folder} has no {CONFIG}, {TF1_CONFIG} or {KERAS_WEIGHTS}; name a folder of Hugging Face, of the original BERT or"
        " of Keras."
    )


def look(folder: Path) -> Found | None:
    """The same, or none. Where a folder holds several kinds, the one that is read with the least trouble is taken."""
    if folder.is_file() and folder.suffix == ".keras":
        return Found(format=KERAS, weights=folder)
    if (folder / CONFIG).is_file():
        for kind, name in ((SAFETENSORS, WEIGHTS), (TORCH, TORCH_WEIGHTS)):
            for path in (folder / name, folder / (name + INDEX)):
                if path.is_file():
                    return Found(format=kind, weights=path)
        if (folder / PRESET_WEIGHTS).is_file():
            return Found(format=PRESET, weights=folder / PRESET_WEIGHTS)
    if (folder / TF1_CONFIG).is_file() and (prefix := _tf1_prefix(folder)):
        return Found(format=TF1, weights=prefix)
    if (folder / KERAS_WEIGHTS).is_file():
        return Found(format=KERAS, weights=folder / KERAS_WEIGHTS)
    return None


def _tf1_prefix(folder: Path) -> Path | None:
    prefixes = sorted(path.with_suffix("") for path in folder.glob("*.index"))
    if folder / TF1_WEIGHTS in prefixes or not prefixes:
        return folder / TF1_WEIGHTS if prefixes else None
    if len(prefixes) > 1:
        names = ", ".join(path.name for path in prefixes[:5])
        raise BertlineError(f"{folder} holds {len(prefixes)} checkpoints ({names}); leave one, or name it {TF1_WEIGHTS}.")
    return prefixes[0]
