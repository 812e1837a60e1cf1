"""A bill of materials in the CycloneDX format for each file of a release, by the library of CycloneDX's makers."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from tools.release.ingredients import Ingredient, as_json
from tools.release.sources import Sources

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "headrace")


def write_bill(part: Path, kind: ComponentType, sources: Sources, ingredients: Iterable[Ingredient]) -> Path:
    """The bill of a file of a release, beside it: FILE.cdx.json. The same file has the same bill."""
    listed = sorted(set(ingredients))
    with part.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    bom = Bom(
        # Neither of now nor of chance, as these are by default.
        serial_number=uuid.uuid5(_NAMESPACE, f"{digest} {as_json(listed)}"),
        metadata=BomMetaData(
            component=_subject(part, kind, sources, digest),
            timestamp=datetime.fromtimestamp(sources.committed_s, UTC),
        ),
        components=[_component(each) for each in listed],
    )
    bom.register_dependency(bom.metadata.component, bom.components)
    bill = part.with_name(f"{part.name}.cdx.json")
    bill.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n")
    return bill


def _subject(part: Path, kind: ComponentType, sources: Sources, digest: str) -> Component:
    return Component(
        name=part.name,
        type=kind,
        version=sources.version,
        bom_ref=part.name,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
    )


def _component(ingredient: Ingredient) -> Component:
    address = PackageURL(ingredient.kind, ingredient.namespace or None, ingredient.name, ingredient.version)
    return Component(
        name=ingredient.name,
        type=ComponentType.LIBRARY,
        version=ingredient.version,
        bom_ref=address.to_string(),
        purl=address,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=ingredient.sha256)] if ingredient.sha256 else [],
        licenses=[LicenseFactory().make_from_string(ingredient.license)] if ingredient.license else [],
    )
