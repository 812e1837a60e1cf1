"""Names that are agreed with Kubernetes and with users of the API: group, finalizers, and what a name may look like."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

GROUP = "data.fluid.io"
VERSION = "v1alpha1"
ApiVersion = Literal["data.fluid.io/v1alpha1"]
API_VERSION: ApiVersion = "data.fluid.io/v1alpha1"
CORE_VERSION = "v1"

FINALIZERS = {
    "Dataset": "fluid-dataset-controller-finalizer",
    "AlluxioRuntime": "alluxio-runtime-controller-finalizer",
    "JindoRuntime": "jindo-runtime-controller-finalizer",
    "DataLoad": "fluid-dataload-controller-finalizer",
    "DataMigrate": "fluid-datamigrate-controller-finalizer",
    "DataBackup": "fluid-databackup-controller-finalizer",
    "DataProcess": "fluid-dataprocess-controller-finalizer",
}
"""Who must be asked before an object of the kind goes."""

OTHER_RUNTIMES = (
    *("ThinRuntime", "ThinRuntimeProfile", "JuiceFSRuntime", "EFCRuntime", "VineyardRuntime"),
    *("CacheRuntime", "CacheRuntimeClass"),
)
"""Kinds of the same group that bring an engine of their own along."""

LABEL_PATTERN = r"[a-z]([-a-z0-9]*[a-z0-9])?"
"""A DNS-1035 label: Datasets and runtimes, since Services are named after them."""

SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""A DNS-1123 subdomain: names of all other objects."""

_LABEL = re.compile(LABEL_PATTERN)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(SUBDOMAIN_PATTERN)


def is_label(text: str) -> bool:
    """True for what a Dataset or a runtime may be called."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def _object_name(text: str) -> str:
    if len(text) <= 253 and _SUBDOMAIN.fullmatch(text):
        return text
    raise ValueError(
        f"'{text[:64]}' is not a name: up to 253 lower-case letters, digits, '-' and '.', "
        "a letter or digit first and last"
    )


def check_namespace(text: str) -> str:
    """The same name; raises `ValueError` for what no namespace is called."""
    if len(text) <= 63 and _NAMESPACE.fullmatch(text):
        return text
    raise ValueError(
        f"'{text[:64]}' is not a namespace: up to 63 lower-case letters, digits and '-', "
        "a letter or digit first and last"
    )


ObjectName = Annotated[str, Field(max_length=253), AfterValidator(_object_name)]
"""The name of an object."""

Namespace = Annotated[str, Field(max_length=63), AfterValidator(check_namespace)]
"""The name of a namespace."""
