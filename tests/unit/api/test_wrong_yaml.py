"""A wrong value is refused with the line, the path of the field and what is allowed; all faults at once."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.api.manifests import InvalidObjectsError, object_of, read_objects
from headrace.errors import ConfigError

HEADS = {
    "Dataset": "apiVersion: data.fluid.io/v1alpha1\nkind: Dataset\nmetadata: {name: d}\n",
    "AlluxioRuntime": "apiVersion: data.fluid.io/v1alpha1\nkind: AlluxioRuntime\nmetadata: {name: d}\n",
    "JindoRuntime": "apiVersion: data.fluid.io/v1alpha1\nkind: JindoRuntime\nmetadata: {name: d}\n",
    "DataLoad": "apiVersion: data.fluid.io/v1alpha1\nkind: DataLoad\nmetadata: {name: l, namespace: a}\n",
    "DataMigrate": "apiVersion: data.fluid.io/v1alpha1\nkind: DataMigrate\nmetadata: {name: m}\n",
    "DataProcess": "apiVersion: data.fluid.io/v1alpha1\nkind: DataProcess\nmetadata: {name: p}\n",
    "DataBackup": "apiVersion: data.fluid.io/v1alpha1\nkind: DataBackup\nmetadata: {name: b}\n",
    "Secret": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n",
    "PersistentVolume": "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\n",
}


def wrong_documents() -> Iterator[tuple[str, str, str]]:
    """Kind, document and errors of each entry of `wrong.txt`."""
    text = (Path(__file__).parent / "wrong.txt").read_text(encoding="utf-8")
    for entry in re.split(r"^===", text, flags=re.MULTILINE)[1:]:
        head, _, rest = entry.partition("\n")
        document, _, message = rest.partition("\n---\n")
        yield head.strip(), document, message.strip()


@pytest.mark.parametrize(("kind", "document", "message"), list(wrong_documents()))
def test_a_wrong_document_is_refused_with_line_field_and_what_is_allowed(
    kind: str, document: str, message: str
) -> None:
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(HEADS.get(kind, "") + document, "d.yaml")
    assert str(raised.value) == message
    assert "hunter2" not in str(raised.value)


def test_all_faults_of_all_documents_are_told_in_their_order() -> None:
    text = (
        HEADS["Dataset"]
        + "spec:\n  placement: A\n  placement: B\n  what: 1\n---\n"
        + HEADS["DataLoad"]
        + "spec: {}\n"
    )
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(text, "d.yaml")
    assert [(fault.line, fault.path) for fault in raised.value.faults] == [
        (5, "spec.placement"), (6, ""), (7, "spec.what"), (12, "spec.dataset"),
    ]  # fmt: skip
    assert "'placement' is set a second time" in str(raised.value)


def test_two_different_objects_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(HEADS["Dataset"] + "---\n" + HEADS["Dataset"] + "spec: {placement: Shared}\n", "d.yaml")
    assert str(raised.value) == (
        "d.yaml line 5: Dataset d: is declared on line 1 already, and is another one there: keep one of them"
    )


def test_the_same_text_twice_is_one_object() -> None:
    """A file that `cat >> dataset.yaml` was run on again."""
    text = HEADS["Dataset"] + "---\n" + HEADS["DataLoad"] + "spec: {dataset: {name: d, namespace: a}}\n"
    assert [thing.kind for thing in read_objects(text + "---\n" + text, "d.yaml")] == ["Dataset", "DataLoad"]


def test_the_objects_of_a_list_are_read_with_their_lines() -> None:
    text = textwrap.dedent("""
        apiVersion: v1
        kind: List
        items:
          - apiVersion: data.fluid.io/v1alpha1
            kind: Dataset
            metadata: {name: one}
          - apiVersion: data.fluid.io/v1alpha1
            kind: Dataset
            metadata: {name: two}
            spec:
              placement: Shared
    """)
    assert [thing.name for thing in read_objects(text, "d.yaml")] == ["one", "two"]
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(text.replace("Shared", "Sharde"), "d.yaml")
    assert str(raised.value).startswith("d.yaml line 12: Dataset two: spec.placement: ")


def test_no_error_shows_what_may_be_a_credential() -> None:
    text = textwrap.dedent("""
        apiVersion: data.fluid.io/v1alpha1
        kind: Dataset
        metadata: {name: d, hunter: hunter2}
        spec:
          mounts:
            - mountPoint: https://user:hunter2@
              options: {password: [hunter2], key: {a: hunter2}, pin: 12345678}
              encryptOptions: [{name: k, valueFrom: {secretKeyRef: {name: "", key: "hunter2/"}}}]
            - {mountPoint: "hunter2", readOnly: hunter2}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: s}
        data: {a: hunter2, b: 12345678}
        stringData: {c: [hunter2], d: 12345678}
        stringdata: {e: hunter2}
        """)
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(text, "d.yaml")
    assert len(raised.value.faults) >= 12
    assert "hunter2" not in str(raised.value)
    assert "12345678" not in str(raised.value)


def test_a_secret_never_shows_its_values() -> None:
    (secret,) = read_objects(HEADS["Secret"] + "stringData: {k: hunter2}\ndata: {c: aHVudGVyMg==}", "s")
    assert "hunter2" not in repr(secret) + str(secret) + secret.model_dump_json()
    assert secret.values() == {"k": b"hunter2", "c": b"hunter2"}


def test_an_object_of_a_newer_release_can_be_read_without_its_new_fields() -> None:
    content = {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": "d", "newer": 1},
        "spec": {"mounts": [{"mountPoint": "s3://b", "newer": {"a": 1}}]},
        "status": {"newer": None},
    }
    with pytest.raises(ConfigError):
        object_of(content)
    thing = object_of(content, lenient=True)
    assert thing.spec.mounts[0].mount_point == "s3://b"
    with pytest.raises(ConfigError):
        object_of(content | {"spec": {"placement": "x"}}, lenient=True)


def test_a_thousand_datasets_are_read_together() -> None:
    text = "---\n".join(HEADS["Dataset"].replace("name: d", f"name: d{number}") for number in range(1000))
    assert len(read_objects(text, "many.yaml")) == 1000
