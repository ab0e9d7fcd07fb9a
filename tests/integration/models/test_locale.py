"""What takes a process of its own, because TensorFlow reads the locale once."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_turkish_locale_does_not_change_the_tokens():
    """ICU lowers "I" to a dotless ı there; the environment is read once a process, so this takes a new one."""
    script = (
        "import tensorflow as tf; from bertline.models.tokenization.normalizer import WordSplitter;"
        "print(ascii(WordSplitter().normalise(tf.constant(['IİıÉI'])).numpy()[0].decode()))"
    )
    environment = {**os.environ, "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TF_CPP_MIN_LOG_LEVEL": "3"}
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == ascii("iiıei"), done.stderr
