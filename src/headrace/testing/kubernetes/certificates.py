"""The authority of a cluster, and the certificates and keys of all that takes part in it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=30)
# Clocks of one machine agree, but a certificate counts from the full second.
_EARLIER = datetime.timedelta(minutes=5)


class Authority:
    """Signs certificates into its folder: `NAME.pem` and `NAME.key`, and its own as `authority.pem`."""

    def __init__(self, folder: Path) -> None:
        """Makes an authority, and the folder, which only its owner can read."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("headrace-test-authority", None)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
        )
        _write(folder, "authority", self._key, builder.sign(self._key, hashes.SHA256()))

    def issue(
        self,
        name: str,
        user: str,
        *,
        group: str | None = None,
        addresses: Iterable[IPv4Address] = (),
        hosts: Iterable[str] = (),
    ) -> None:
        """A certificate for clients of that user and group, and for servers of those addresses and hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        builder = (
            _builder(_subject(user, group), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usages, critical=False)
        )
        names = [*(x509.DNSName(host) for host in hosts), *(x509.IPAddress(each) for each in addresses)]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        _write(self._folder, name, key, builder.sign(self._key, hashes.SHA256()))


def make_signing_key(folder: Path, name: str) -> None:
    """A key pair that signs the tokens of service accounts: `NAME.key` and `NAME.pub`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_key(folder / f"{name}.key", key)
    (folder / f"{name}.pub").write_bytes(public)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + VALID)
    )


def _subject(user: str, group: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _write(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    _write_key(folder / f"{name}.key", key)
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(text)
