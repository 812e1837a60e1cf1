"""Certificates of the webhook: an authority and a serving certificate, made together and replaced together.

The authority signs one certificate and its key is forgotten then, so what lies in the Secret can sign no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import SecretStr

from headrace.errors import ConfigError

SKEW = timedelta(hours=24)
"""How far the clock of an API server may be behind ours: certificates are valid from this long ago."""

_AUTHORITY = "headrace-webhook-authority"


@dataclass(frozen=True)
class Pair:
    """A serving certificate with its key, and the authority that it is verified by; all in PEM."""

    authority: str
    certificate: str
    key: SecretStr = field(repr=False)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a pair: when its life began (`SKEW` after the start of its validity), when it ends, and its DNS
    names."""

    begins: datetime
    ends: datetime
    names: frozenset[str]


def make_pair(names: tuple[str, ...], now: datetime, life: timedelta) -> Pair:
    """A new pair for these DNS names, the first of which is its subject."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial number is in the name: during a rotation both authorities are in one bundle, and are told apart by it.
    serial = x509.random_serial_number()
    issuer = _name(f"{_AUTHORITY}-{serial:x}"[:64])
    builder = x509.CertificateBuilder().not_valid_before(now - SKEW).not_valid_after(now + life)
    authority = (
        builder.subject_name(issuer)
        .issuer_name(issuer)
        .serial_number(serial)
        .public_key(authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        builder.subject_name(_name(names[0][:64]))
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    return Pair(_pem(authority), _pem(certificate), SecretStr(_key_pem(key)))


def facts_of(pair: Pair) -> Facts:
    """Raises `ConfigError` when it is no pair: unreadable, or of parts that do not belong together."""
    try:
        authority = x509.load_pem_x509_certificate(pair.authority.encode())
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = serialization.load_pem_private_key(pair.key.get_secret_value().encode(), password=None)
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if key.public_key() != certificate.public_key():
            raise ValueError("the key is another one's")
    except Exception as error:  # whatever a wrong file makes the library raise
        # Without its text and its cause: they could show some of what was read.
        raise ConfigError.of(f"the certificate cannot be used: {type(error).__name__}") from None
    return Facts(
        begins=certificate.not_valid_before_utc + SKEW,
        ends=min(certificate.not_valid_after_utc, authority.not_valid_after_utc),
        names=frozenset(names.get_values_for_type(x509.DNSName)),
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
