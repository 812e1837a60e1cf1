"""A wrong value is refused with the line, the path of the field and what is allowed; all faults at once."""

from __future__ import annotations

import textwrap

import pytest

from headrace.api.reading import InvalidObjectsError, object_of, read_objects
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
LEVEL = "spec: {tieredstore: {levels: [{mediumtype: MEM, %s}]}}"
LEVEL_PATH = "line 4: AlluxioRuntime d: spec.tieredstore.levels[0]"
MOUNT = "spec: {mounts: [{mountPoint: %s}]}"
MOUNT_PATH = "line 4: Dataset d: spec.mounts[0].mountPoint"
LOAD = "spec: {dataset: {name: d}, %s}"

WRONG = [
    # kind, rest of the document, error
    ("Dataset", "spec: {mount: []}", "line 4: Dataset d: spec.mount: unknown field; did you mean 'mounts'?"),
    ("Dataset", "spec: {access_modes: []}", "line 4: Dataset d: spec.access_modes: unknown field; did you mean 'accessModes'?"),
    ("Dataset", "sepc: {}", "line 4: Dataset d: sepc: unknown field; did you mean 'spec'?"),
    (
        "Dataset",
        "spec: {owner: {uid: 1, gid: 1, user: a, group: b, quux: 1}}",
        "line 4: Dataset d: spec.owner.quux: unknown field; allowed here: uid, gid, user, group",
    ),
    ("Dataset", "spec: {mounts: []}", "line 4: Dataset d: spec.mounts: is too short; allowed: at least 1 entry"),
    ("Dataset", "spec: {mounts: {}}", "line 4: Dataset d: spec.mounts: is KEY: VALUE pairs; a list is needed"),
    ("Dataset", "spec: []", "line 4: Dataset d: spec: is a list; KEY: VALUE pairs is needed"),
    ("Dataset", "spec: {mounts: [{name: x}]}", "line 4: Dataset d: spec.mounts[0].mountPoint: is missing"),
    ("Dataset", MOUNT % "/data/x", f"{MOUNT_PATH}: is not an address: write it like oss://bucket/prefix, s3://bucket or pvc://claim"),
    ("Dataset", MOUNT % "s33://b/x", f"{MOUNT_PATH}: has the unknown scheme 's33': did you mean s3://?"),
    ("Dataset", MOUNT % "s3:///", f"{MOUNT_PATH}: names nothing: s3://NAME is expected"),
    ("Dataset", MOUNT % "local://data", f"{MOUNT_PATH}: needs an absolute path: local:///folder"),
    ("Dataset", MOUNT % "pvc://claim/../x", f"{MOUNT_PATH}: may not hold '..'"),
    ("Dataset", MOUNT % "dataset://only", f"{MOUNT_PATH}: names no dataset: write dataset://NAMESPACE/NAME or dataset://NAMESPACE/NAME/SUB"),
    ("Dataset", MOUNT % "'s3://b/a b'", f"{MOUNT_PATH}: holds a space or a control character: write %20 for a space"),
    ("Dataset", MOUNT % "'s3:'", f"{MOUNT_PATH}: is too short; allowed: at least 5 characters"),
    ("Dataset", MOUNT % "s3://b, path: x", "line 4: Dataset d: spec.mounts[0].path: is not absolute: a path in the dataset starts with '/'"),
    ("Dataset", MOUNT % "s3://b, path: /a/../b", "line 4: Dataset d: spec.mounts[0].path: may not hold '..'"),
    ("Dataset", MOUNT % "s3://b, name: a/b", "line 4: Dataset d: spec.mounts[0].name: may not hold '/', nor be '.' or '..': it is the name of a folder"),
    ("Dataset", MOUNT % "s3://b, readOnly: 'yes'", "line 4: Dataset d: spec.mounts[0].readOnly: is a text; true or false is needed"),
    (
        "Dataset",
        "spec:\n  mounts:\n    - mountPoint: s3://a\n      name: x\n    - mountPoint: s3://b\n      path: /x/\n",
        "line 9: Dataset d: spec.mounts[1].path: appears at /x as mounts[0] does: give each mount a path of its own",
    ),
    (
        "Dataset",
        "spec:\n  mounts:\n    - mountPoint: s3://a\n    - mountPoint: s3://b\n",
        "line 7: Dataset d: spec.mounts[1].mountPoint: appears at / as mounts[0] does: give each mount a path of its own",
    ),
    (
        "Dataset",
        "spec:\n  sharedEncryptOptions:\n    - {name: k, valueFrom: {secretKeyRef: {name: s}}}\n    - {name: k, valueFrom: {secretKeyRef: {name: s}}}",
        "line 7: Dataset d: spec.sharedEncryptOptions[1].name: this option stands twice in the list",
    ),
    (
        "Dataset",
        "spec: {sharedEncryptOptions: [{name: k, value: hunter2}]}",
        "line 4: Dataset d: spec.sharedEncryptOptions[0].valueFrom: is missing\n"
        "d.yaml line 4: Dataset d: spec.sharedEncryptOptions[0].value: unknown field; did you mean 'valueFrom'?",
    ),
    ("Dataset", "spec: {placement: Share}", "line 4: Dataset d: spec.placement: 'Share' is not allowed; allowed: Exclusive, \"\", Shared; did you mean Shared?"),
    ("Dataset", "spec: {placement: 5}", 'line 4: Dataset d: spec.placement: is 5; one of Exclusive, "", Shared is needed'),
    ("Dataset", "spec: {accessModes: [RWX]}", "line 4: Dataset d: spec.accessModes[0]: 'RWX' is not allowed; allowed: ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod"),
    ("Dataset", "spec: {accessModes: [ReadOnlyMany, ReadOnlyMany]}", "line 4: Dataset d: spec.accessModes: names a mode twice"),
    ("Dataset", "spec: {owner: {uid: -1, gid: 1.5, user: 7}}", "line 4: Dataset d: spec.owner.uid: -1 is not allowed; allowed: at least 0\n"
        "d.yaml line 4: Dataset d: spec.owner.gid: is 1.5; a whole number is needed\n"
        'd.yaml line 4: Dataset d: spec.owner.user: is 7; a text is needed: write "7"\n'
        "d.yaml line 4: Dataset d: spec.owner.group: is missing"),
    ("Dataset", "spec: {dataRestoreLocation: {path: s3://b}}", "line 4: Dataset d: spec.dataRestoreLocation.path: is no place for a backup: write local:///folder or pvc://claim/folder"),
    ("Dataset", "spec: {dataRestoreLocation: {path: local:///b}}", "line 4: Dataset d: spec.dataRestoreLocation.nodeName: is missing: a backup in local:// is on one node"),
    ("Dataset", "spec: {sharedOptions: {port: 80, flag: true, gone: }}", "line 4: Dataset d: spec.sharedOptions.port: is a number; a text is needed: write it in quotes\n"
        "d.yaml line 4: Dataset d: spec.sharedOptions.flag: is true or false; a text is needed: write it in quotes\n"
        'd.yaml line 4: Dataset d: spec.sharedOptions.gone: is empty; a text is needed: write "" for an empty one'),
    ("Dataset", "spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}", "line 4: Dataset d: spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values: operator In needs at least one value"),
    ("Dataset", "spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]}}}", "line 4: Dataset d: spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values: operator Exists takes no values"),
    ("Dataset", "spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: [b]}]}]}}}", "line 4: Dataset d: spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values: operator Gt needs exactly one whole number"),
    ("Dataset", "spec: {nodeAffinity: {required: {nodeSelectorTerms: []}}}", "line 4: Dataset d: spec.nodeAffinity.required.nodeSelectorTerms: is too short; allowed: at least 1 entry"),
    ("Dataset", "spec: {tolerations: [{value: a}]}", "line 4: Dataset d: spec.tolerations[0].key: without a key the operator must be Exists"),
    ("Dataset", "spec: {tolerations: [{key: a, operator: Exists, value: b}]}", "line 4: Dataset d: spec.tolerations[0].value: operator Exists takes no value"),
    ("Dataset", "status: {conditions: [{type: Ready, status: 'True', lastUpdateTime: yesterday}]}", "line 4: Dataset d: status.conditions[0].lastUpdateTime: is not a time: write it like 2026-01-31T09:30:00Z"),
    ("AlluxioRuntime", "spec: {replicas: -1}", "line 4: AlluxioRuntime d: spec.replicas: -1 is not allowed; allowed: at least 0"),
    ("AlluxioRuntime", "spec: {replicas: '4'}", "line 4: AlluxioRuntime d: spec.replicas: is a text; a whole number is needed"),
    ("AlluxioRuntime", "spec: {replicas: 2.5}", "line 4: AlluxioRuntime d: spec.replicas: is 2.5; a whole number is needed"),
    ("AlluxioRuntime", "spec: {master: {replicas: 0}}", "line 4: AlluxioRuntime d: spec.master.replicas: 0 is not allowed; allowed: at least 1"),
    ("AlluxioRuntime", "spec: {master: {ports: {rpc: 70000}}}", "line 4: AlluxioRuntime d: spec.master.ports.rpc: 70000 is not allowed; allowed: at most 65535"),
    ("AlluxioRuntime", "spec: {tieredStore: {}}", "line 4: AlluxioRuntime d: spec.tieredStore: unknown field; did you mean 'tieredstore'?"),
    ("AlluxioRuntime", "spec: {tieredstore: {levels: [{mediumtype: tape}]}}", f"{LEVEL_PATH}.mediumtype: 'tape' is not allowed; allowed: MEM, SSD, HDD"),
    ("AlluxioRuntime", LEVEL % "quota: 10Qi", f"{LEVEL_PATH}.quota: '10Qi' is not a size above zero: write it like 50Gi, 180G or 1.5Ti"),
    ("AlluxioRuntime", LEVEL % "quota: 0", f"{LEVEL_PATH}.quota: 0 is not a size above zero: write it like 50Gi, 180G or 1.5Ti"),
    ("AlluxioRuntime", LEVEL % "quota: 1.5", f"{LEVEL_PATH}.quota: 1.5 (without quotes) is not a size above zero: write it like 50Gi, 180G or 1.5Ti"),
    ("AlluxioRuntime", LEVEL % "high: 0.9", f'{LEVEL_PATH}.high: is 0.9; a text is needed: write "0.9"'),
    ("AlluxioRuntime", LEVEL % "high: '1.2'", f"{LEVEL_PATH}.high: '1.2' is not a ratio: a number from 0 to 1 in quotes, like \"0.95\""),
    ("AlluxioRuntime", LEVEL % "high: '0.5', low: '0.5'", f"{LEVEL_PATH}.high: 0.5 is not above low (0.5)"),
    ("AlluxioRuntime", LEVEL % "path: 'a'", f"{LEVEL_PATH}.path: 'a' is not an absolute path (several are parted by commas)"),
    ("AlluxioRuntime", LEVEL % "path: '/a,/a'", f"{LEVEL_PATH}.path: names a folder twice"),
    ("AlluxioRuntime", LEVEL % "path: '/a,/b', quotaList: '1Gi'", f"{LEVEL_PATH}.quotaList: has 1 quotas for 2 paths: one for each is needed"),
    ("AlluxioRuntime", LEVEL % "path: '/a', quotaList: 'lots'", f"{LEVEL_PATH}.quotaList: 'lots' is not a size above zero: write them like 50Gi,100Gi"),
    ("AlluxioRuntime", LEVEL % "volumeSource: {emptyDir: {}}", f"{LEVEL_PATH}.volumeSource: needs volumeType emptyDir"),
    ("AlluxioRuntime", "spec: {tieredstore: {levels: [{mediumtype: MEM, path: /a}, {mediumtype: SSD, path: /a/}]}}", "line 4: AlluxioRuntime d: spec.tieredstore.levels[1].path: is the folder of levels[0], too"),
    ("AlluxioRuntime", "spec: {worker: {resources: {limits: {cpu: 0.5}}}}", "line 4: AlluxioRuntime d: spec.worker.resources.limits.cpu: 0.5 (without quotes) is not a quantity: write it like 500m, 2, 1.5Gi or 180G"),
    ("AlluxioRuntime", "spec: {initUsers: {env: [{name: A, value: hunter2, valueFrom: {secretKeyRef: {}}}]}}", "line 4: AlluxioRuntime d: spec.initUsers.env[0].valueFrom: only one of value and valueFrom may be set"),
    ("AlluxioRuntime", "spec: {networkmode: HostNetwork}", "line 4: AlluxioRuntime d: spec.networkmode: unknown field; allowed here: alluxioVersion, master, jobMaster, worker, jobWorker, apiGateway, initUsers, fuse, properties, jvmOptions, tieredstore, data, replicas, runAs, disablePrometheus, hadoopConfig, ..."),
    ("JindoRuntime", "spec: {master: {replicas: 2}}", "line 4: JindoRuntime d: spec.master.replicas: 2 is not allowed; allowed: 1, 3"),
    ("JindoRuntime", "spec: {labels: {a: b}, podMetadata: {labels: {a: b}}}", "line 4: JindoRuntime d: spec.labels: cannot stand beside podMetadata.labels: write all labels there"),
    ("JindoRuntime", "spec: {fuse: {metrics: {scrapeTarget: all}}}", "line 4: JindoRuntime d: spec.fuse.metrics.scrapeTarget: 'all' is not allowed; allowed: MountPod, Sidecar, All, None; did you mean All?"),
    ("DataLoad", "spec: {}", "line 4: DataLoad l: spec.dataset: is missing"),
    ("DataLoad", "", "line 1: DataLoad l: spec: is missing"),
    ("DataLoad", LOAD % "policy: Daily", "line 4: DataLoad l: spec.policy: 'Daily' is not allowed; allowed: Once, Cron, OnEvent"),
    ("DataLoad", LOAD % "policy: Cron", 'line 4: DataLoad l: spec.schedule: is missing: policy Cron needs one, like "0 3 * * *"'),
    ("DataLoad", LOAD % "schedule: '* * * * *'", "line 4: DataLoad l: spec.schedule: has no effect with policy Once: write policy: Cron"),
    ("DataLoad", LOAD % "policy: Cron, schedule: '61 * * * *'", "line 4: DataLoad l: spec.schedule: '61' is not a minute of a schedule: 0 to 59"),
    ("DataLoad", LOAD % "policy: Cron, schedule: often", "line 4: DataLoad l: spec.schedule: 'often' is not a schedule: five fields (minute hour day month weekday) or @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"),
    ("DataLoad", LOAD % "target: [{path: train}]", "line 4: DataLoad l: spec.target[0].path: is not absolute: a path in the dataset starts with '/'"),
    ("DataLoad", LOAD % "target: [{path: /a, replicas: 0}]", "line 4: DataLoad l: spec.target[0].replicas: 0 is not allowed; allowed: at least 1"),
    ("DataLoad", LOAD % "target: [{path: /a}, {path: /a/}]", "line 4: DataLoad l: spec.target[1].path: is the path of target[0], too"),
    ("DataLoad", "spec: {dataset: {name: d, namespace: b}}", "line 4: DataLoad l: spec.dataset.namespace: 'b' is not this object's namespace (a): both must be in one"),
    ("DataLoad", LOAD % "runAfter: {kind: DataLoad, name: l}", "line 4: DataLoad l: spec.runAfter.name: names this object itself: it would wait for ever"),
    ("DataLoad", LOAD % "runAfter: {kind: Job, name: x}", "line 4: DataLoad l: spec.runAfter.kind: 'Job' is not allowed; allowed: DataLoad, DataBackup, DataMigrate, DataProcess"),
    ("DataLoad", LOAD % "ttlSecondsAfterFinished: -5", "line 4: DataLoad l: spec.ttlSecondsAfterFinished: -5 is not allowed; allowed: at least 0"),
    ("DataMigrate", "spec: {from: {}, to: {dataset: {name: d, namespace: n}}}", "line 4: DataMigrate m: spec.from: needs exactly one of dataset and externalStorage: neither is there"),
    ("DataMigrate", "spec: {from: {externalStorage: {uri: s3://a}}, to: {externalStorage: {uri: s3://b}}}", "line 4: DataMigrate m: spec: needs a dataset in from or in to: two external storages have no engine"),
    ("DataMigrate", "spec: {from: {dataset: {name: d}}, to: {externalStorage: {uri: b}}, parallelism: 0}", "line 4: DataMigrate m: spec.from.dataset.namespace: is missing\n"
        "d.yaml line 4: DataMigrate m: spec.to.externalStorage.uri: is too short; allowed: at least 5 characters\n"
        "d.yaml line 4: DataMigrate m: spec.parallelism: 0 is not allowed; allowed: at least 1"),
    ("DataMigrate", "spec: {source: {}, to: {dataset: {name: d, namespace: n}}}", "line 4: DataMigrate m: spec.from: is missing\n"
        "d.yaml line 4: DataMigrate m: spec.source: unknown field; did you mean 'resources'?"),
    ("DataProcess", "spec: {dataset: {name: d, mountPath: /data}, processor: {}}", "line 4: DataProcess p: spec.processor: needs exactly one of job and script: neither is there"),
    ("DataProcess", "spec: {dataset: {name: d, mountPath: data}, processor: {script: {source: ''}}}", "line 4: DataProcess p: spec.dataset.mountPath: is not an absolute path without '..'\n"
        "d.yaml line 4: DataProcess p: spec.processor.script.source: is too short; allowed: at least 1 character"),
    ("DataProcess", "spec: {dataset: {name: d, mountPath: /data}, processor: {script: {source: x, volumeMounts: [{name: v, mountPath: /data/}]}}}", "line 4: DataProcess p: spec.processor.script.volumeMounts[0].mountPath: is where the dataset is (dataset.mountPath)"),
    ("DataBackup", "spec: {dataset: d, backupPath: oss://b/x}", "line 4: DataBackup b: spec.backupPath: is no place for a backup: write local:///folder or pvc://claim/folder"),
    ("Secret", "data: {k: hunter2}", "line 4: Secret s: data.k: is not base64: put plain text under stringData instead"),
    ("Secret", "stringData: {k: 1234}", "line 4: Secret s: stringData.k: is a number; a text is needed: write it in quotes"),
    ("PersistentVolume", "spec: {}", "line 4: PersistentVolume v: spec: needs exactly one of nfs, hostPath, local and csi: 0 are there"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "rest", "message"), WRONG, ids=[f"{each[0]}-{each[1][:60]}" for each in WRONG]
)
def test_a_wrong_document_is_refused_with_line_field_and_what_is_allowed(
    kind: str, rest: str, message: str
) -> None:
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(HEADS[kind] + rest, "d.yaml")
    assert str(raised.value) == f"d.yaml {message}"
    assert "hunter2" not in str(raised.value)


HEADLESS = [
    ("just text", "d.yaml line 1: KEY: VALUE pairs are expected: apiVersion, kind, ..."),
    ("- a\n- b", "d.yaml line 1: KEY: VALUE pairs are expected: apiVersion, kind, ..."),
    ("kind: Pod\napiVersion: v1", "d.yaml line 1: kind: 'Pod' is not known here; allowed: Dataset, AlluxioRuntime, JindoRuntime, "
     "DataLoad, DataMigrate, DataProcess, DataBackup, Secret, ConfigMap, PersistentVolume, PersistentVolumeClaim"),
    ("\nkind: dataset", "d.yaml line 2: kind: 'dataset' is not known here; did you mean Dataset?"),
    ("apiVersion: v1\nkind: Dataset", "d.yaml line 1: Dataset: apiVersion: 'v1' is not allowed; allowed for Dataset: data.fluid.io/v1alpha1"),
    ("kind: Dataset", "d.yaml line 1: Dataset: apiVersion: is missing; allowed for Dataset: data.fluid.io/v1alpha1"),
    ("apiVersion: data.fluid.io/v1alpha1\nkind: Dataset", "d.yaml line 1: Dataset: metadata: is missing"),
    ("apiVersion: data.fluid.io/v1alpha1\nkind: Dataset\nmetadata: {}", "d.yaml line 3: Dataset: metadata.name: is missing"),
    ("apiVersion: data.fluid.io/v1alpha1\nkind: Dataset\nmetadata: {name: 7d}", "d.yaml line 3: Dataset 7d: metadata.name: '7d' is not a "
     "name for a Dataset: up to 63 lower-case letters, digits and '-', a letter first, no '-' last"),
    ("apiVersion: v1\nkind: Secret\nmetadata: {name: a_b}", "d.yaml line 3: Secret a_b: metadata.name: 'a_b' is not a name: up to 253 "
     "lower-case letters, digits, '-' and '.', a letter or digit first and last"),
    ("apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: A}", "d.yaml line 3: Secret a: metadata.namespace: 'A' is not a "
     "namespace: up to 63 lower-case letters, digits and '-', a letter or digit first and last"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), HEADLESS)
def test_a_document_says_what_it_is(text: str, message: str) -> None:
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(text, "d.yaml")
    assert str(raised.value) == message


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


def test_an_object_can_stand_in_a_file_once() -> None:
    with pytest.raises(InvalidObjectsError) as raised:
        read_objects(HEADS["Dataset"] + "---\n" + HEADS["Dataset"], "d.yaml")
    assert str(raised.value) == (
        "d.yaml line 5: Dataset d: is declared on line 1 already: an object can stand in a file once"
    )


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
