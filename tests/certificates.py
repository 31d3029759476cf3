"""A certificate of 127.0.0.1 that signs itself, for servers of tests that speak TLS."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import pytest


class Certificate(NamedTuple):
    """Two PEM files; the key is readable by its owner alone."""

    certificate: Path
    key: Path

    @property
    def trusting(self) -> ssl.SSLContext:
        """For clients that trust this certificate and no other."""
        return ssl.create_default_context(cafile=str(self.certificate))


def make_certificate(folder: Path, *, passphrase: bytes | None = None, name: str = "one") -> Certificate:
    """Write a certificate and its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography, from the extra dev")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / f"{name}.pem", folder / f"{name}-key.pem")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encryption = (
        serialization.NoEncryption() if passphrase is None else serialization.BestAvailableEncryption(passphrase)
    )
    form = serialization.PrivateFormat.PKCS8
    files.key.touch(mode=0o600)
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    return files
