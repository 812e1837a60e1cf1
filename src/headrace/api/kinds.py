"""All kinds, and the words by which people and the API server call them.

The table is there without the models: a command loads those of the kinds that it is about.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api import columns
from headrace.api.columns import Column
from headrace.api.names import API_VERSION, CORE_VERSION, GROUP
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.api.alluxio import AlluxioRuntime
    from headrace.api.core import ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret
    from headrace.api.databackup import DataBackup
    from headrace.api.dataload import DataLoad
    from headrace.api.datamigrate import DataMigrate
    from headrace.api.dataprocess import DataProcess
    from headrace.api.dataset import Dataset
    from headrace.api.jindo import JindoRuntime

    Runtime = AlluxioRuntime | JindoRuntime
    Operation = DataLoad | DataMigrate | DataProcess | DataBackup
    Object = Dataset | Runtime | Operation | Secret | ConfigMap | PersistentVolume | PersistentVolumeClaim

RUNTIMES = ("AlluxioRuntime", "JindoRuntime")
OPERATIONS = ("DataLoad", "DataMigrate", "DataProcess", "DataBackup")
_UNIONS = {"Runtime": RUNTIMES, "Operation": OPERATIONS}


def __getattr__(name: str) -> Any:
    """The unions above, for who needs them while the program runs."""
    if name == "Object":
        return functools.reduce(operator.or_, (kind.model for kind in KINDS.values()))
    if name in _UNIONS:
        return functools.reduce(operator.or_, (KINDS[each].model for each in _UNIONS[name]))
    raise AttributeError(name)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object. `module` is where its model stands, below `headrace.api`."""

    name: str
    module: str
    plural: str
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    scaled: bool = False
    selector: bool = False
    namespaced: bool = True
    api_version: str = API_VERSION

    @property
    def model(self) -> type[Object]:
        """Loads it, when it is the first time."""
        model: type[Object] = getattr(importlib.import_module(f"headrace.api.{self.module}"), self.name)
        return model

    @property
    def singular(self) -> str:
        """`alluxioruntime`."""
        return self.name.lower()

    @property
    def is_core(self) -> bool:
        """True for Kubernetes' own kinds, which have no CRD."""
        return self.api_version == CORE_VERSION

    @property
    def prefix(self) -> str:
        """The part before the names in a list of several kinds: `dataset.data.fluid.io`, `persistentvolume`."""
        return self.singular if self.is_core else f"{self.singular}.{GROUP}"

    @property
    def words(self) -> tuple[str, ...]:
        """Everything that it may be called."""
        group = () if self.is_core else (f"{self.singular}.{GROUP}", f"{self.plural}.{GROUP}")
        return (self.singular, self.plural, *self.short_names, *group)


_FLUID = ("fluid",)

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("Dataset", "dataset", "datasets", columns.DATASET, ("dataset",), _FLUID),
        Kind(
            "AlluxioRuntime",
            "alluxio",
            "alluxioruntimes",
            columns.ALLUXIO,
            ("alluxio",),
            _FLUID,
            scaled=True,
            selector=True,
        ),
        Kind(
            "JindoRuntime",
            "jindo",
            "jindoruntimes",
            columns.JINDO,
            ("jindo",),
            _FLUID,
            scaled=True,
            selector=True,
        ),
        Kind("DataLoad", "dataload", "dataloads", columns.DATA_LOAD, ("load",), _FLUID),
        Kind("DataMigrate", "datamigrate", "datamigrates", columns.DATA_MIGRATE, ("migrate",), _FLUID),
        Kind("DataProcess", "dataprocess", "dataprocesses", columns.DATA_PROCESS),
        Kind("DataBackup", "databackup", "databackups", columns.DATA_BACKUP, ("backup",), _FLUID),
        Kind("Secret", "core", "secrets", columns.SECRET, api_version=CORE_VERSION),
        Kind("ConfigMap", "core", "configmaps", columns.CONFIG_MAP, ("cm",), api_version=CORE_VERSION),
        Kind(
            "PersistentVolume",
            "core",
            "persistentvolumes",
            columns.PERSISTENT_VOLUME,
            ("pv",),
            namespaced=False,
            api_version=CORE_VERSION,
        ),
        Kind(
            "PersistentVolumeClaim",
            "core",
            "persistentvolumeclaims",
            columns.PERSISTENT_VOLUME_CLAIM,
            ("pvc",),
            api_version=CORE_VERSION,
        ),
    )
}
"""By name, in the order in which objects that need each other are told of."""


def kind_of(thing: Object) -> Kind:
    """The kind of an object."""
    return KINDS[type(thing).__name__]


def kinds_called(word: str) -> tuple[Kind, ...]:
    """The kinds that a person means by `dataset`, `alluxio`, `pv`, by a category such as `fluid`, or by `all`.

    Raises `ConfigError` with the nearest word.
    """
    asked = word.lower()
    found = tuple(kind for kind in KINDS.values() if asked in kind.words)
    found = found or tuple(kind for kind in KINDS.values() if asked in kind.categories)
    if asked == "all":
        found = tuple(kind for kind in KINDS.values() if not kind.is_core)
    if found:
        return found
    known = [each for kind in KINDS.values() for each in kind.words[:2]] + ["fluid"]
    nearest = difflib.get_close_matches(asked, known, n=1, cutoff=0.6)
    hint = (
        f"did you mean '{nearest[0]}'?"
        if nearest
        else f"known are {', '.join(kind.singular for kind in KINDS.values())}"
    )
    raise ConfigError.of(f"there is no kind of object called '{word[:64]}'", hint=hint)
