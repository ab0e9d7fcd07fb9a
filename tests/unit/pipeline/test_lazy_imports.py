"""Modules that are loaded when something is first asked of them."""

import subprocess
import sys

import pytest

PRELUDE = "import sys; from bertline.pipeline.core.lazy_imports import install; install(); install()\n"


def run(code):
    found = subprocess.run([sys.executable, "-c", PRELUDE + code], capture_output=True, text=True)
    assert not found.returncode, found.stderr
    return found.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "import nltk.stem.porter; from nltk.stem import porter; mark = 'nltk.stem.api'; ask = lambda: porter.PorterStemmer",
        "import matplotlib.pyplot as plt; mark = 'matplotlib.figure'; ask = lambda: plt.figure",
        "from matplotlib import patches; mark = 'matplotlib.transforms'; ask = lambda: patches.Patch",
        "import IPython as shell; mark = 'IPython.core.getipython'; ask = lambda: shell.get_ipython",
    ],
)
def test_a_module_is_loaded_when_something_is_asked_of_it(code):
    assert run(f"{code}\nprint(mark in sys.modules, bool(ask()), mark in sys.modules)") == "False True True"


def test_a_module_that_is_run_while_it_is_asked_is_run_once_and_whole():
    same = (
        "import google.cloud.bigquery as one; from google.cloud import bigquery as other; print(one is other, one.Client)"
    )
    assert run(same) == "True <class 'google.cloud.bigquery.client.Client'>"


def test_a_module_that_fails_says_why_each_time():
    broken = "import sys, nltk; sys.modules['nltk.internals'] = None\n"
    ask = "try: nltk.FreqDist\nexcept ImportError as error: print(error.name)\n"
    assert run(broken + ask * 2).split() == ["nltk.internals"] * 2


def test_what_a_module_has_not_is_missed_as_ever():
    assert run("import nltk\ntry: nltk.nothing\nexcept AttributeError as error: print(error)").endswith("'nothing'")
    assert run("import nltk\nprint(hasattr(nltk, '__wrapped__'), 'nltk.tokenize' in sys.modules)") == "False False"
    assert run("try: import nltk.nothing\nexcept ImportError as error: print(error.name)") == "nltk.nothing"
