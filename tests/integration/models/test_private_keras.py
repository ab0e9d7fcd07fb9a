"""The private side of Keras, as `models/compat.py` takes it."""

import keras
from canary import still_takes

from bertline.models.compat import layers_within


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.parts = [keras.layers.Dense(2), keras.Sequential([keras.layers.Dropout(0.1)])]


def test_keras_still_gives_all_layers_within_a_layer_at_any_depth():
    entry = "layers_within in models/compat.py"
    still_takes(keras.layers.Layer, "_flatten_layers", "self", include_self="", entry=entry)
    kinds = {type(layer).__name__ for layer in layers_within(Block())}
    assert kinds >= {"Dense", "Sequential", "Dropout"} and "Block" not in kinds, f"Keras gives {kinds}; change {entry}"
