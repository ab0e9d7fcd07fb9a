"""Which settings to try next: keras-tuner's oracles, asked for one trial at a time.

Nothing is kept on the disk from one search to the next. An oracle that is asked again, with the same seed and the same
answers, proposes the same; the answers come from TFX's cache, where code, config and data have not changed. A search that
was killed thus goes on where it was, and never by the score of a model that would no longer come out.
"""

from __future__ import annotations

import math
import tempfile
from typing import Any, Literal

import keras_tuner

from bertline.pipeline.compat import keep_in
from bertline.pipeline.config import RangeConfig
from bertline.pipeline.studies.search_space import Space, number_kind, settings_of

_ORACLES = {
    "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
    "random": keras_tuner.oracles.RandomSearchOracle,
}
_SCORE = "score"


class Proposals:
    """Proposes settings, one trial after the other.

    Example:
      proposals = Proposals(config.search.space, method="bayesian", trials=10, better="higher", seed=1)
      while (settings := proposals.next()) is not None:
          proposals.learn(accuracy_with(settings))
    """

    def __init__(self, space: Space, *, method: str, trials: int, better: Literal["higher", "lower"], seed: int) -> None:
        self._space = space
        self._folder = tempfile.TemporaryDirectory(prefix="bertline-search-")  # an oracle writes all that it learns
        self._oracle = _ORACLES[method](
            objective=keras_tuner.Objective(_SCORE, "max" if better == "higher" else "min"),
            max_trials=trials,
            hyperparameters=_hyperparameters(space),
            seed=seed + 1,  # keras-tuner takes 0 for none
            max_consecutive_failed_trials=trials + 1,  # settings that fail are an answer too
        )
        self._oracle.verbose = 0
        keep_in(self._oracle, self._folder.name)
        self._trial: Any = None

    def next(self) -> dict[str, Any] | None:
        """The settings of the next trial; none when there are enough, or no others."""
        self._trial = self._oracle.create_trial("search")
        if self._trial.status != "RUNNING":
            self._folder.cleanup()
            return None
        return settings_of(self._space, self._trial.hyperparameters.values)

    def learn(self, score: float | None) -> None:
        """What the settings have got that were proposed last; none, or no number, where they failed."""
        failed = score is None or not math.isfinite(score)
        if not failed:
            self._oracle.update_trial(self._trial.trial_id, {_SCORE: score})
        self._trial.status = "FAILED" if failed else "COMPLETED"
        self._oracle.end_trial(self._trial)


def _hyperparameters(space: Space) -> keras_tuner.HyperParameters:
    """A list is searched by the places of its values, so that they may be anything."""
    made = keras_tuner.HyperParameters()
    for name, values in space.items():
        if not isinstance(values, RangeConfig):
            made.Choice(name, list(range(len(values))))
        elif number_kind(name) == "int":
            made.Int(name, int(values.min), int(values.max), sampling=values.scale)
        else:
            made.Float(name, values.min, values.max, sampling=values.scale)
    return made
