"""The request of `arena submit`: plain, frozen values, the same for every backend.

They are kept with the job (as JSON), so that a job can say later what it was. Words of commands and values of variables
stay as they were typed: nothing is joined, split or quoted on the way.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import ConfigDict, Field, SecretStr

from headrace.process.deferred_model import DeferredModel


class JobKind(StrEnum):
    """A kind of training job; the value is Arena's name for it."""

    MPI = "mpijob"
    PYTORCH = "pytorchjob"
    TF = "tfjob"


class RoleName(StrEnum):
    """The purpose of a job's process. MPI: launcher, worker. PyTorch: master, worker. TensorFlow: the other four."""

    LAUNCHER = "launcher"
    MASTER = "master"
    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


class CleanPolicy(StrEnum):
    """The processes to end (and the pods to delete) when the job has ended."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class Frozen(DeferredModel):
    """A value that never changes, and takes no field that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(Frozen):
    """The resources of one process of a role. Quantities as Kubernetes writes them; empty: not said."""

    cpu: str = ""
    memory: str = ""
    cpu_limit: str = ""
    memory_limit: str = ""
    gpus: int = Field(default=0, ge=0)
    devices: dict[str, int] = Field(default_factory=dict)
    """Other extended resources, `name: count`."""


class Role(Frozen):
    """Processes of one job that are for the same thing."""

    name: RoleName
    replicas: int = Field(ge=0)
    resources: Resources = Field(default_factory=Resources)
    image: str = ""
    """Empty: the job's."""
    selector: dict[str, str] | None = None
    """None: the job's."""
    port: int = 0
    """0: the backend chooses."""
    affinity_policy: str = "none"
    """none, spread or binpack."""
    affinity_constraint: str = "preferred"
    """preferred or required."""


class DataVolume(Frozen):
    """A dataset or a claim, and where the processes see it."""

    claim: str
    path: str
    sub_path: str = ""
    read_only: bool = False


class HostFolder(Frozen):
    """A folder of the nodes, and where the processes see it."""

    host_path: str
    path: str


class ConfigFile(Frozen):
    """A file that travels with the job. `content` is text; it may be secret."""

    path: str
    content: SecretStr


class Toleration(Frozen):
    """As Kubernetes means it; `key` empty with operator Exists: all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class CodeSync(Frozen):
    """Code that is fetched into `<working_dir>/code` before the processes start."""

    mode: str
    """git or rsync."""
    source: str
    image: str = ""


class TensorBoard(Frozen):
    """A TensorBoard beside the job."""

    image: str = ""
    log_dir: str = "/training_logs"


class JobSpec(Frozen):
    """A training job. Checked by `checking.py` before anything is made of it."""

    name: str
    namespace: str
    kind: JobKind
    roles: tuple[Role, ...]
    image: str = ""
    command: tuple[str, ...]
    """The words behind the flags, as typed. One word: a line for `shell`. More: a program and its arguments."""
    shell: str = "sh"
    working_dir: str = "/root"
    environment: dict[str, str] = Field(default_factory=dict)
    data: tuple[DataVolume, ...] = ()
    host_folders: tuple[HostFolder, ...] = ()
    config_files: tuple[ConfigFile, ...] = ()
    annotations: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str = ""
    scheduler: str = ""
    gang: bool = False
    queue: str = ""
    """A Kueue LocalQueue."""
    suspend: bool = False
    image_pull_policy: str = "Always"
    image_pull_secrets: tuple[str, ...] = ()
    host_network: bool = False
    host_ipc: bool = False
    host_pid: bool = False
    rdma: bool = False
    shared_memory: str = "2Gi"
    retries: int = Field(default=0, ge=0)
    clean_policy: CleanPolicy = CleanPolicy.ALL
    running_timeout_s: int = 0
    """0: none."""
    starting_timeout_s: int = 0
    ttl_after_finished_s: int | None = None
    """None: the ended job is kept."""
    mounts_on_launcher: bool = False
    processes_per_node: str = ""
    """PyTorch: auto, cpu, gpu or a number."""
    success_policy: str = "ChiefWorker"
    """TensorFlow: ChiefWorker or AllWorkers."""
    role_sequence: tuple[RoleName, ...] = ()
    code: CodeSync | None = None
    tensorboard: TensorBoard | None = None
    wait_warm_percent: int = Field(default=0, ge=0, le=100)
    """The processes start once this much of each dataset is cached."""

    def role(self, name: RoleName) -> Role | None:
        """The role of this name, if the job has it."""
        return next((role for role in self.roles if role.name is name), None)

    @property
    def slots_per_worker(self) -> int:
        """The number of MPI ranks of a worker: its GPUs, one without."""
        worker = self.role(RoleName.WORKER)
        return max(worker.resources.gpus if worker else 0, 1)
