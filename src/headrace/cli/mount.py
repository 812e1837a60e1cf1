"""`headrace mount`: checks everything that can be checked, starts the mount process, and says when it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import options, printer, role_options
from headrace.cli.dataset_words import settings_of
from headrace.cli.left_here import forget_old
from headrace.cli.terminal import terminal
from headrace.errors import ConfigError
from headrace.roles.launching.launch import LaunchedMount
from headrace.roles.launching.process_pair import launch_mount, serve_mount
from headrace.roles.messages import Answer, MountSpec
from headrace.roles.specs.mount_spec import mount_spec
from headrace.settings.dataset import MountMode
from headrace.settings.engine import EvictionPolicy, SnapshotPolicy
from headrace.settings.environment import Environment
from headrace.settings.sizes import format_size
from headrace.settings.toml_files import mount_settings, read_file


def run(
    origin: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ORIGIN...",
            help="Location of the data: s3://bucket/prefix, oss://…, hdfs://…, https://…, /path; "
            "NAME=ORIGIN for each of several; none for a member of a cluster.",
        ),
    ] = None,
    mountpoint: Annotated[
        # Whether it can be used is ours to say, with what to do about it; a mount that is there already may be silent,
        # so nobody looks at it before.
        Path | None,
        typer.Argument(metavar="MOUNTPOINT", help="An empty folder.", parser=Path),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Read through the workers of this master's cluster: http://HOST:8700."
        ),
    ] = None,
    config: role_options.Config = None,
    token_file: role_options.TokenFile = None,
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The machine, in a cluster: its workers are asked first."),
    ] = None,
    read_deadline: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time that a read waits for any worker of the cluster."),
    ] = None,
    cache: options.Cache = None,
    option: options.Option = None,
    exclude: options.Exclude = None,
    strict: options.Strict = None,
    secret_file: options.SecretFile = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", "-f", help="Stay in the foreground, with the log on the terminal.")
    ] = False,
    mode: Annotated[
        MountMode | None, typer.Option(metavar="|".join(MountMode), help="Way to serve the kernel.")
    ] = None,
    allow_other: Annotated[
        bool | None, typer.Option("--allow-other", help="Let other users read the mount.")
    ] = None,
    nonempty: Annotated[
        bool | None, typer.Option("--nonempty", help="Mount over a folder that is not empty.")
    ] = None,
    writable: Annotated[
        bool | None,
        typer.Option("--writable", help="Let programs write; what they close is in the origin then."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the dataset.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit for data in flight.")
    ] = None,
    read_ahead: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most bytes fetched ahead of one sequential reader.")
    ] = None,
    block_size: options.BlockSize = None,
    eviction: Annotated[
        EvictionPolicy | None,
        typer.Option(metavar="|".join(EvictionPolicy), help="Eviction policy of a full cache."),
    ] = None,
    snapshot: Annotated[
        SnapshotPolicy | None,
        typer.Option(
            metavar="|".join(SnapshotPolicy),
            help="List the origin again (the default), start at once with the last list, or do both: what has "
            "changed is there as soon as it is listed.",
        ),
    ] = None,
    high: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share of the quota at which eviction starts.")
    ] = None,
    low: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share of the quota at which eviction stops.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="Requests to one origin at the same time.")
    ] = None,
    metrics_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of /metrics and /healthz.")
    ] = None,
    log_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The log of a mount in the background.")
    ] = None,
    state_directory: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the snapshot, the lock and the socket."),
    ] = None,
    log_format: role_options.LogFormatOption = None,
    keeper: Annotated[
        Path | None,
        typer.Option(
            metavar="SOCKET",
            readable=False,
            help="The node's keeper, of `headrace csi`: the mount outlives the end of all its processes.",
        ),
    ] = None,
) -> int:
    """Mount a bucket or folder, cached on this machine or by a cluster."""
    environment = Environment.current()
    if cluster is not None or config is not None:
        _refuse_for_member(
            origin=origin,
            option=option,
            exclude=exclude,
            strict=strict,
            secret_file=secret_file,
            name=name,
            block_size=block_size,
            eviction=eviction,
            snapshot=snapshot,
            concurrency=concurrency,
            writable=writable,
        )
        # Here, since a mount of one machine alone has no need of YAML, nor of an HTTP client.
        from headrace.cli.role_settings import settings_of_role  # noqa: PLC0415
        from headrace.roles.specs.member_spec import member_spec  # noqa: PLC0415
        from headrace.settings.roles import MemberSettings  # noqa: PLC0415

        member = settings_of_role(
            MemberSettings,
            config,
            environment,
            master=cluster,
            token_file=token_file,
            mountpoint=mountpoint,
            node=node,
            read_deadline_s=read_deadline,
            cache=cache,
            memory=memory,
            read_ahead=read_ahead,
            high=high,
            low=low,
            mode=mode,
            allow_other=allow_other,
            nonempty=nonempty,
            metrics_address=metrics_address,
            log_file=log_file,
            state_directory=state_directory,
            log_format=log_format,
            keeper=keeper,
        )
        spec = member_spec(member, environment, terminal(), foreground=foreground)
        return _start(spec, environment, foreground=foreground)
    if not origin or mountpoint is None:
        raise options.MissingWords("missing argument 'ORIGIN...'; or give a --cluster", "headrace mount")
    dataset = settings_of(
        environment,
        option=option,
        exclude=exclude,
        strict=strict,
        cache=cache,
        secret_file=secret_file,
        name=name,
        memory=memory,
        read_ahead=read_ahead,
        block_size=block_size,
        eviction=eviction,
        snapshot=snapshot,
        high=high,
        low=low,
        concurrency=concurrency,
        state_directory=state_directory,
    )
    settings = mount_settings(
        read_file(environment)["mount"],
        mode=mode,
        allow_other=allow_other,
        nonempty=nonempty,
        writable=writable,
        metrics_address=metrics_address,
        log_file=log_file,
        log_level=environment.get("HEADRACE_LOG"),
        log_format=log_format,
    )
    spec = mount_spec(
        origin,
        dataset,
        settings,
        environment,
        terminal(),
        mountpoint=mountpoint,
        keeper=keeper,
        foreground=foreground,
    )
    forget_old(environment, spec.config.state_directory)
    return _start(spec, environment, foreground=foreground)


def _start(spec: MountSpec, environment: Environment, *, foreground: bool) -> int:
    if foreground:
        return serve_mount(spec, environment)
    # Before anything shows progress: a copy is made of a process without threads.
    _announce(spec, _answer_of(launch_mount(spec, environment), spec))
    return 0


def _refuse_for_member(**given: object) -> None:
    for name, value in given.items():
        if value:
            word = "an ORIGIN" if name == "origin" else f"--{name.replace('_', '-')}"
            raise ConfigError.of(
                f"{word} is not for a member of a cluster", hint="the master and its workers know the data"
            )


def _answer_of(launched: LaunchedMount, spec: MountSpec) -> Answer:
    console = printer.talk()
    if not console.is_terminal:
        return launched.wait()
    with console.status(f"listing {', '.join(mount.label for mount in spec.config.origins)}"):
        return launched.wait()


def _announce(spec: MountSpec, answer: Answer) -> None:
    levels: list[Any] = [folder.quota_bytes for level in spec.config.cache for folder in level.folders]
    cached = f"cache of {format_size(sum(levels))}" if levels else "no cache"
    printer.say(
        f"mounted {spec.config.name} at {spec.mountpoint}: {answer.files:,} files, "
        f"{format_size(answer.size_bytes)}, {cached}, {answer.mode}"
    )
