"""What must be set before TensorFlow is first imported, in the one place that every entry point calls."""

from __future__ import annotations

import logging
import os
import sys
import warnings

from bertline.pipeline.core import lazy_imports


def prepare(*, quiet: bool = False) -> None:
    """
    Args:
      quiet: nothing of what TensorFlow says about itself is shown: it calls its advice about the processor an error, and
        what really fails is an exception. TF_CPP_MIN_LOG_LEVEL=0 in the environment shows all.
    """
    # tensorflow_transform sets this when it is imported before TensorFlow; set at once, `tf.keras` is the same Keras 2 in
    # every process and import order. The models themselves use `import keras`, which is Keras 3 either way.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if quiet and "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
        from absl import logging as absl_logging

        absl_logging.set_verbosity(absl_logging.ERROR)
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if quiet else "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Beam and TFX look for Google Cloud credentials otherwise, which takes seconds where there is no network.
    os.environ.setdefault("NO_GCE_CHECK", "true")
    # Google's client libraries announce, at every import, when they will drop a Python that the pins need.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
    if "IPython" not in sys.modules:  # where somebody sits at a prompt, modules are looked into before they are used
        lazy_imports.install()
