"""The inside of uvicorn, as `serving/embedded/rest/connections.py` takes it."""

import asyncio
import inspect

import h11
import uvicorn
from canary import still_takes
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

ENTRY = "serving/embedded/rest/connections.py"


def test_a_connection_of_uvicorn_still_has_the_state_that_we_go_by():
    for name, arguments in (
        ("connection_made", ("transport",)),
        ("connection_lost", ("error",)),
        ("data_received", ("data",)),
        ("on_response_complete", ()),
        ("send_400_response", ("message",)),
    ):
        still_takes(H11Protocol, name, "self", *arguments, entry=f"Connection in {ENTRY}")
    still_takes(uvicorn.protocols.http.h11_impl, "H11Protocol", config="", server_state="", app_state="", entry=ENTRY)
    assert STATUS_PHRASES[408] == b"Request Timeout", f"uvicorn has no phrases of statuses; change {ENTRY}"

    async def connected() -> H11Protocol:
        config = uvicorn.Config(lambda: None, http="h11", log_config=None)
        return H11Protocol(config=config, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop())

    made = asyncio.run(connected())
    missing = [name for name in ("conn", "connections", "loop", "transport") if not hasattr(made, name)]
    assert not missing, f"a connection of uvicorn has no {missing}; change Connection in {ENTRY}"
    assert made.conn.their_state is h11.IDLE is made.conn.our_state, f"uvicorn reads HTTP otherwise; change {ENTRY}"


def test_a_server_of_uvicorn_still_starts_as_ours_does():
    entry = f"Listener in {ENTRY}"
    still_takes(uvicorn.Server, "startup", "self", sockets="", entry=entry)
    used = {*uvicorn.Server.startup.__code__.co_names}
    wanted = {"lifespan", "config", "servers", "started", "get_running_loop"}
    assert wanted <= used, f"uvicorn's server starts without {wanted - used}; change {entry}"
    assert "server_state" in inspect.getsource(uvicorn.Server.startup), f"uvicorn keeps its state elsewhere; change {entry}"
