from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError, UnsupportedError
from headrace.jobs import flag_values
from headrace.jobs.spec import CleanPolicy, DataVolume, HostFolder, JobKind, RoleName, Toleration


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("mpi", JobKind.MPI),
        ("MPIJob", JobKind.MPI),
        ("mj", JobKind.MPI),
        ("Tensorflow", JobKind.TF),
        ("tf", JobKind.TF),
        ("py", JobKind.PYTORCH),
        ("PytorchJob", JobKind.PYTORCH),
    ],
)
def test_kinds_have_arenas_names_in_any_case(word: str, kind: JobKind) -> None:
    assert flag_values.parse_kind(word) is kind


def test_kinds_that_only_arena_has_are_told_from_mistakes() -> None:
    with pytest.raises(UnsupportedError, match="volcanojob"):
        flag_values.parse_kind("volcanojob")
    with pytest.raises(ConfigError, match="no kind of job"):
        flag_values.parse_kind("mpijobs")


def test_variables_are_split_at_the_first_equals_sign() -> None:
    assert flag_values.parse_pairs(["A=b=c", "B=", "A=d,e"], "--env") == {"A": "d,e", "B": ""}


@given(st.text(min_size=1).filter(lambda text: "=" not in text), st.text())
def test_values_of_variables_are_never_touched(name: str, value: str) -> None:
    assert flag_values.parse_pairs([f"{name}={value}"], "--env") == {name: value}


def test_a_variable_without_a_value_is_refused_and_never_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        flag_values.parse_pairs(["hunter2"], "--env")
    assert "hunter2" not in str(caught.value) + str(caught.value.hint)


@pytest.mark.parametrize(
    ("word", "volume"),
    [
        ("imagenet:/data", DataVolume(claim="imagenet", path="/data")),
        ("imagenet:/data/", DataVolume(claim="imagenet", path="/data")),
        ("imagenet/train/a:/data", DataVolume(claim="imagenet", path="/data", sub_path="train/a")),
        ("imagenet:/data:ro", DataVolume(claim="imagenet", path="/data", read_only=True)),
        ("imagenet:/data:rw", DataVolume(claim="imagenet", path="/data")),
    ],
)
def test_data_names_a_claim_a_folder_and_a_path(word: str, volume: DataVolume) -> None:
    assert flag_values.parse_data(word) == volume


@pytest.mark.parametrize(
    "word", ["imagenet", "imagenet:", ":/data", "imagenet:/data:", "a:/b:ro:x", "a:/b:wx", ""]
)
def test_data_that_makes_no_sense_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="--data"):
        flag_values.parse_data(word)


def test_folders_of_nodes_are_seen_at_their_own_path_unless_another_is_said() -> None:
    assert flag_values.parse_data_dir("/mnt/jfs/test:/data/imagenet") == HostFolder(
        host_path="/mnt/jfs/test", path="/data/imagenet"
    )
    assert flag_values.parse_data_dir("/mnt/jfs/") == HostFolder(host_path="/mnt/jfs", path="/mnt/jfs")
    with pytest.raises(ConfigError):
        flag_values.parse_data_dir("/a:/b:ro")


def test_files_keep_their_local_name() -> None:
    assert flag_values.parse_config_file("a.yaml:/etc/a.yaml") == ("a.yaml", "/etc/a.yaml")
    assert flag_values.parse_config_file("./a.yaml") == ("./a.yaml", "")


@pytest.mark.parametrize(
    ("word", "toleration"),
    [
        ("all", Toleration(operator="Exists")),
        ("gpu=v100:NoSchedule,Equal", Toleration(key="gpu", value="v100", effect="NoSchedule")),
        ("gpu=v100:NoSchedule", Toleration(key="gpu", value="v100", effect="NoSchedule")),
        ("gpu=", Toleration(key="gpu")),
        ("gpu:NoExecute,Exists", Toleration(key="gpu", operator="Exists", effect="NoExecute")),
        ("gpu:NoExecute", Toleration(key="gpu", operator="Exists", effect="NoExecute")),
        ("nvidia.com/gpu", Toleration(key="nvidia.com/gpu", operator="Exists")),
    ],
)
def test_tolerations(word: str, toleration: Toleration) -> None:
    assert flag_values.parse_toleration(word) == toleration


@pytest.mark.parametrize(
    "word",
    [
        "",
        "=v",
        "gpu=v:Sometimes",
        "gpu=v:NoSchedule,Like",
        "gpu:NoSchedule,Equal",
        "gpu=v,Exists",
        "gpu=v:NoSchedule,",
    ],
)
def test_malformed_tolerations_are_refused_and_not_dropped(word: str) -> None:
    with pytest.raises(ConfigError, match="--toleration"):
        flag_values.parse_toleration(word)


def test_devices_are_counted_and_gpus_have_their_own_flag() -> None:
    assert flag_values.parse_devices(["amd.com/gpu=2"]) == {"amd.com/gpu": 2}
    for word in ("nvidia.com/gpu=1", "amd.com/gpu=0", "amd.com/gpu=x", "amd.com/gpu"):
        with pytest.raises(ConfigError):
            flag_values.parse_devices([word])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1h30m", 5400), ("7d", 604800), ("1d12h", 129600), ("1500ms", 2), ("0", 0)],
)
def test_durations_are_whole_seconds(text: str, seconds: int) -> None:
    assert flag_values.parse_seconds(text, "--since") == seconds


@pytest.mark.parametrize("text", ["", "d", "soon", "1d2", "-3s"])
def test_what_is_no_duration_names_its_flag(text: str) -> None:
    if text == "1d2":
        assert flag_values.parse_seconds(text, "--since") == 86402
        return
    with pytest.raises(ConfigError, match="--since"):
        flag_values.parse_seconds(text, "--since")


def test_policies_and_orders_of_roles() -> None:
    assert flag_values.parse_clean_policy("running") is CleanPolicy.RUNNING
    assert flag_values.parse_role_sequence("w,PS,Chief") == (RoleName.WORKER, RoleName.PS, RoleName.CHIEF)
    assert flag_values.parse_role_sequence("") == ()
    with pytest.raises(ConfigError):
        flag_values.parse_clean_policy("Some")
    with pytest.raises(ConfigError):
        flag_values.parse_role_sequence("w,x")
