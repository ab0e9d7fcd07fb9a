"""A pushed model, loaded to explain its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertline.models.kinds import need_encoder
from bertline.models.responses.base import ResponseSpec
from bertline.models.responses.translation import ALIGN
from bertline.models.tasks.base.task import kind_for
from bertline.pipeline.config import CHOICES, TEXT_KEYS, TextConfig
from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.inference.pushed_model import model_folder
from bertline.serving.contract import DEFAULT_SIGNATURE, TOKENIZE_SIGNATURE, read_metadata

if TYPE_CHECKING:
    from bertline.models.explain.explainer import Explainer


@dataclass(frozen=True)
class Version:
    """A version that was pushed, as its metadata describes it; the model itself is not loaded yet."""

    folder: Path
    saved_at: int
    """When its SavedModel was written, in nanoseconds."""
    metadata: Mapping[str, Any] = field(compare=False)
    kind: ResponseSpec[Any] = field(compare=False)

    @property
    def text_keys(self) -> tuple[str, ...]:
        """The names of the texts that it reads, in their order."""
        return tuple(self.metadata.get("text_keys", TEXT_KEYS[:1]))

    def named(self, texts: Sequence[bytes], choices: Sequence[bytes]) -> dict[str, Any]:
        """Texts under the names of the model's signature; BertlineError where there are too few or too many."""
        keys = [key for key in self.text_keys if key != CHOICES]
        if len(texts) != len(keys):
            wanted = "one text; leave out --second" if len(keys) == 1 else f"two, {keys[0]} and {keys[1]}; give --second"
            raise BertlineError(f"{self.folder}: the model reads {wanted}.")
        given = [text for text in choices if text]
        if bool(given) != (CHOICES in self.text_keys):
            wanted = (
                "does not choose between endings; leave out --choice"
                if given
                else "chooses between endings; give --choice TEXT, twice or more"
            )
            raise BertlineError(f"{self.folder}: the model {wanted}.")
        return {**dict(zip(keys, texts, strict=True)), **({CHOICES: given} if given else {})}


def find(model: str | Path | None, workspace: str = "workspace") -> Version:
    """Args: see `pushed_model.model_folder`."""
    folder = model_folder(model, workspace)
    metadata = read_metadata(folder)
    kind = kind_for(str(metadata.get("task")))
    if kind is None or not isinstance(metadata.get("text"), dict):
        raise BertlineError(
            f"{folder}: no model metadata (assets.extra/bertline.json), so it was not exported by Bertline."
        )
    need_encoder(folder, metadata, "which an explanation needs")
    return Version(folder, (folder / "saved_model.pb").stat().st_mtime_ns, metadata, kind)


@lru_cache(maxsize=1)
def load(found: Version) -> Explainer:
    """The one that was asked last is kept: from Python, the same model is asked again and again."""
    environment.prepare()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  the ops inside the model

    from bertline.models.explain.explainer import Explainer
    from bertline.models.tasks.base.task import Context, get_task
    from bertline.models.tokenization.tokenizer import TextEncoder
    from bertline.serving.client.rows import columns_of

    folder, metadata, text_keys = found.folder, found.metadata, found.text_keys
    loaded = tf.saved_model.load(str(folder))
    if getattr(loaded, "explaining", None) is None:
        raise BertlineError(
            f"{folder}: this version was pushed by an older Bertline, without the graphs for explanations; run the pipeline"
            " again, and explain the version that it pushes."
        )

    def ask(signature: str, texts: Mapping[str, Any]) -> dict[str, Any]:
        asked = {name: tf.constant(value) for name, value in columns_of([texts]).items()}
        return {name: value.numpy()[0] for name, value in loaded.signatures[signature](**asked).items()}

    def tokens(texts: Mapping[str, Any]) -> list[int]:
        found = ask(TOKENIZE_SIGNATURE, texts)
        return found["token_ids"][: found["lengths"]].tolist()

    def written(texts: Mapping[str, Any]) -> list[str]:
        return [token.decode() for token in ask(ALIGN, texts)["target_pieces"]]

    def encoder(carried: Any) -> TextEncoder:
        path = carried.vocab_asset.asset_path.numpy().decode()
        return TextEncoder.from_config(path, TextConfig.model_validate(metadata["text"]))

    task = get_task(metadata["task"])
    context = Context(
        encoder(loaded.text_encoder),
        tuple(metadata.get("labels", ())),
        text_keys=tuple(key if key == CHOICES else raw for key, raw in zip(text_keys, (*TEXT_KEYS, CHOICES), strict=False)),
        positive=metadata.get("positive"),
        tuned=metadata.get("tuned", {}),
        target=encoder(loaded.target_encoder) if getattr(loaded, "target_encoder", None) is not None else None,
    )
    return Explainer(
        loaded.explaining,
        task,
        context,
        ask=lambda texts: ask(DEFAULT_SIGNATURE, texts),
        readable=found.kind.readable,
        tokenize=tokens,
        write=written if task.inspection and task.inspection.writes else None,
    )
