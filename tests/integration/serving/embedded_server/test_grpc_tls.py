"""TLS on gRPC."""

import grpc
from certificates import signed
from serving_client import Client, refused, serving

from bertline.serving.embedded.server import Server
from bertline.serving.settings import Tls


def secured(server: Server, *credentials: bytes | None) -> grpc.Channel:
    return grpc.secure_channel(f"127.0.0.1:{server.port}", grpc.ssl_channel_credentials(*credentials))


def test_tls_over_grpc_shows_the_servers_certificate(base):
    authority = signed("authority")
    with serving(base, tls=Tls(*signed("localhost", authority))) as client:
        with secured(client.server, authority[1]) as channel:
            assert Client(client.server, channel).answers()
        for channel in (secured(client.server, signed("another")[1]), client.channel):
            with channel:
                error = refused(Client(client.server, channel).answers)
                assert error.code() == grpc.StatusCode.UNAVAILABLE


def test_mutual_tls_over_grpc_asks_for_a_certificate_of_the_clients_authority(base):
    authority, clients = signed("authority"), signed("clients")
    tls = Tls(*signed("localhost", authority), custom_ca=clients[1], client_verify=True)
    with serving(base, tls=tls) as client:
        with secured(client.server, authority[1], *signed("client", clients)) as channel:
            assert Client(client.server, channel).answers()
        for pair in ((), signed("client", authority), signed("client")):
            with secured(client.server, authority[1], *pair) as channel:
                assert refused(Client(client.server, channel).answers).code() == grpc.StatusCode.UNAVAILABLE
