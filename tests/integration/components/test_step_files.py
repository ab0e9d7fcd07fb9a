"""The names by which what steps leave is found are those of TFX, where it has chosen them."""

from tfx.utils.path_utils import serving_model_dir

from bertline.components.step_files import SERVING_MODEL


def test_the_folder_of_the_saved_model_is_where_tfx_puts_it():
    assert serving_model_dir("artifact") == f"artifact/{SERVING_MODEL}"
