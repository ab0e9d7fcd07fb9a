"""Keys and certificates for tests of TLS."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def signed(name: str, by: tuple[bytes, bytes] | None = None) -> tuple[bytes, bytes]:
    """A key and its certificate in PEM: an authority's own, or signed by one."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer, signer = who, key
    if by:
        issuer = x509.load_pem_x509_certificate(by[1]).subject
        signer = serialization.load_pem_private_key(by[0], None)
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = x509.CertificateBuilder(issuer, who, key.public_key(), x509.random_serial_number(), now - day, now + day)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = made.add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    made = made.add_extension(names, critical=False)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
