import pytest
from recording import config_in, make_store


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def config(tmp_path, store):
    return config_in(tmp_path, store)
