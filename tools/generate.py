"""Writes what the code says: docs/reference, the manual pages, the CRDs of deploy, the diagrams of ARCHITECTURE.md and
the README's drawing; `--check` only says whether they are up to date.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import typer.main

import api_pages
import generate_csi
import man_pages
import overview_picture
import package_diagram
import sdk_pages
from headrace import errors
from headrace.api.formats import format_duration
from headrace.cli.application import application
from headrace.cli.arena.main import VERBS as JOB_VERBS
from headrace.cli.arena.main import application as jobs_application
from headrace.control.metrics import FAMILIES as MASTER
from headrace.csi.metrics import FAMILIES as CSI
from headrace.engine import native
from headrace.exits import ExitCode, known_kinds
from headrace.kubeflow.metrics import FAMILIES as JOBS
from headrace.openmetrics import Family
from headrace.operator.metrics import FAMILIES as OPERATOR
from headrace.plan import condition_meanings
from headrace.plan.reasons import MEANINGS, Meaning, Reason
from headrace.settings import origin_options as options
from headrace.settings.environment import HEADRACE_VARIABLES
from headrace.settings.model import Model
from headrace.settings.reading import settable_by_variable, variable_of
from headrace.settings.roles import ROLES, OriginSettings, TlsSettings
from headrace.settings.toml_files import TABLES
from headrace.webhook.metrics import FAMILIES as WEBHOOK

ROOT = Path(__file__).parent.parent
REFERENCE = Path("docs/reference")
CRDS = (
    Path("deploy/crds"),
    Path("deploy/chart/files/crds"),
)  # helm sees its own folder alone
NOTE = "<!-- Written by tools/generate.py from the code. Change the code, then run `make gen`. -->"


def cli_page() -> str:
    """Every command with its arguments and options."""
    parts = [
        "# Commands",
        "Data goes to standard output, talk to standard error. Exit codes: [exit-codes.md](exit-codes.md).",
    ]
    group: Any = typer.main.get_command(application())
    for name, command in group.commands.items():
        parts.append(f"## headrace {name}")
        parts.append(first_paragraph(command.help))
        parts.append(f"    headrace {name} {usage(command)}".rstrip())
        rows = [parameter_row(parameter) for parameter in command.params]
        parts.append(table(("word", "meaning"), [row for row in rows if row]))
    return page(parts)


def arena_page() -> str:
    """Every command on training jobs with its arguments and flags."""
    parts = [
        "# Arena: commands on training jobs",
        "`arena VERB` and `headrace job VERB` are the same. [submitting.md](../submitting.md) and "
        "[following.md](../following.md) say how they are used. Data goes to standard output, talk to standard error. "
        "`arena` answers 1 for any fault and 2 for wrong words, `headrace job` with [exit-codes.md](exit-codes.md).",
    ]
    group: Any = typer.main.get_command(jobs_application())
    for words, verb in JOB_VERBS.items():
        command = group
        for word in words:
            command = command.commands[word]
        name = f"arena {' '.join(words)}"
        parts += [f"## {name}", first_paragraph(command.help)]
        if verb.aliases:
            parts.append(f"Also: {', '.join(f'`{alias}`' for alias in verb.aliases)}.")
        parts.append(f"    {name} {job_usage(command, ends_at_first=verb.ends_at_first)}".rstrip())
        rows = [parameter_row(parameter) for parameter in command.params]
        parts.append(table(("word", "meaning"), [row for row in rows if row]))
    parts += ["## Beside Arena", ARENA_WORDS, table(("Arena 0.15.5", "here", "why"), ARENA_DIFFERENCES)]
    return page(parts)


ARENA_WORDS = (
    "`arena submit pytorch` and `tf` write the objects that the cluster serves: those of the Kubeflow training "
    "operator, or, where the schema of the kind has no `runPolicy`, those of the operators that Arena installs. "
    "Arena 0.15.5 itself asks for MPIJobs of `kubeflow.org/v1alpha1` only: jobs of v2beta1, which this `arena` "
    "prefers, it can neither submit nor see.\n\nWhat a script may meet that was written for Arena:"
)
ARENA_DIFFERENCES = [
    ("`arena delete NOSUCH` exits with 0", "with 1", "a script that misspells a name shall notice"),
    ("`arena list -n NOSUCH` exits with 1", "the same", ""),
    (
        "`arena top node`: ROLE is what the node's labels say, else `<none>`",
        "the same; on one machine `worker`",
        "",
    ),
    (
        "`top node -d`, `--gpu-mode`, `--metric`",
        "not there",
        "GPUs are counted as Kubernetes schedules them; use of single GPUs is a matter of the cluster's monitoring",
    ),
    ("`arena whoami`", "not there", "`kubectl auth whoami` says whom the API server sees"),
    (
        "`arena logviewer`",
        "not there",
        "it links to a dashboard; `arena logs` shows what was printed, also when pods are gone",
    ),
    (
        "`arena completion SHELL`",
        "`headrace completion --for arena SHELL`",
        "a script that holds all words: no key starts Python",
    ),
    (
        "other kinds of jobs, `serve`, `model`, `evaluate`, `cron`, `scalein`, `scaleout`, `llm`",
        "not there",
        "they have nothing to do with data",
    ),
]
"""Of Arena's words and answers those that a script may depend on."""


def job_usage(command: Any, *, ends_at_first: bool) -> str:
    """The words of a command on jobs: flags first where what stands behind is another program's."""
    words = usage(command)
    return f"[OPTION]... {words.removesuffix(' [OPTION]...')}" if ends_at_first else words


def usage(command: Any) -> str:
    """The words of a command in their order."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    return " ".join([argument_name(argument) for argument in arguments] + ["[OPTION]..."])


def argument_name(argument: Any) -> str:
    """`ORIGIN...`."""
    return str(argument.metavar or argument.name.upper())


def parameter_row(parameter: Any) -> tuple[str, str] | None:
    """The word and meaning of one argument or option; `None` for `--help`."""
    if parameter.param_type_name == "argument":
        return f"`{argument_name(parameter)}`", getattr(parameter, "help", None) or ""
    if parameter.name == "help":
        return None
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    values = "" if parameter.is_flag else f" {parameter.metavar}"
    return f"`{names}{values}`", parameter.help or ""


def settings_page() -> str:
    """The configuration file and the environment."""
    parts = [
        "# Settings",
        "The configuration file is TOML: the file that `HEADRACE_CONFIG` names, else `~/.config/headrace/config.toml`, "
        "else `/etc/headrace/config.toml`. The command line weighs more.",
    ]
    for name, model in TABLES.items():
        parts.append(f"## [{name}]")
        parts.append(settings_table(model))
    parts.append("## [dataset.options]")
    parts.append("Options of the origins by any of their names: [options.md](options.md).")
    parts.append("## Environment")
    rows = [(f"`{name}`", meaning) for name, meaning in HEADRACE_VARIABLES.items()]
    parts.append(table(("variable", "meaning"), rows))
    parts.append("The clouds' own variables stand with the options they give: [options.md](options.md).")
    return page(parts)


def settings_table(model: type[Model]) -> str:
    """The settings of a model, but for options, which have a page of their own."""
    rows = [
        (f"`{key}`", default_text(field), field.description or "")
        for key, field in model.model_fields.items()
        if key != "options"
    ]
    return table(("key", "default", "meaning"), rows)


def roles_page() -> str:
    """The file of each role of a cluster."""
    parts = [
        "# Role files",
        "`headrace master`, `worker`, `mount` and `load` take `--config FILE`: YAML with these keys. An unknown key is "
        "an error. A setting has a variable, too, such as "
        f"`{variable_of('worker', 'listen')}`; lists are parted by white space there. The command line weighs more "
        "than the variable, and the variable more than the file.",
    ]
    for name, model in ROLES.items():
        parts.append(f"## {name}")
        parts.append(first_paragraph(model.__doc__))
        parts.append(settings_table(model))
        without = [key for key in model.model_fields if key not in settable_by_variable(model)]
        if without:
            parts.append(f"Without a variable: {', '.join(f'`{key}`' for key in without)}.")
    parts += [
        "## An entry of `origins`",
        first_paragraph(OriginSettings.__doc__),
        settings_table(OriginSettings),
    ]
    parts.append("`options` of an entry: [options.md](options.md).")
    parts += ["## `tls`", first_paragraph(TlsSettings.__doc__), settings_table(TlsSettings)]
    return page(parts)


def default_text(field: Any) -> str:
    """The default of a setting as the file would say it."""
    if field.is_required():
        return "(needed)"
    default = field.get_default(call_default_factory=True)
    if default is None or default == "":
        return ""
    if default == ():
        return "`[]`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{getattr(default, 'value', default)}`"


def options_page() -> str:
    """The options of each kind of origin, every spelling."""
    titles = {
        "s3": "S3 and what speaks its protocol: `s3://bucket/prefix`",
        "oss": "Alibaba Cloud OSS: `oss://bucket/prefix`, `oss://bucket.ENDPOINT/prefix`",
        "webhdfs": "HDFS: `hdfs://namenode/path`, `webhdfs://host:port/path`, `swebhdfs://host:port/path`",
        "http": "Web servers with an index page: `https://host/path/`",
        "nfs": "NFS servers, version 3: `nfs://server/export/path`, `nfs://server:port/export/path`",
        "local": "Folders: `/path`, `./path`, `local:///path`, `file:///path`",
    }
    parts = [
        "# Options of origins",
        "`--option KEY=VALUE`, or the table `[dataset.options]` of the configuration file, or the file of "
        "`--secret-file`. A VALUE may be `@FILE` (its content), `env:NAME` (a variable) or `prompt` (asked for); "
        "`@@text` is `@text` itself. `NAME:KEY=VALUE` is for one of several origins. An option weighs more than the "
        "address, the address more than the environment.",
    ]
    for kind, title in titles.items():
        parts.append(f"## {title}")
        rows = [option_row(option) for option in options.OPTIONS[kind]]
        parts.append(table(("option (any of)", "variable", "meaning"), rows) if rows else "No options.")
    parts.append(
        "Without any credentials, an S3 origin uses the profile `AWS_PROFILE` of `~/.aws/credentials` and "
        "`~/.aws/config`, and then the machine's own role."
    )
    return page(parts)


def option_row(option: options.Option) -> tuple[str, str, str]:
    """One option."""
    kind = " (true or false)" if option.flag else " (credential)" if option.secret else ""
    spelled = ", ".join(f"`{word}`" for word in option.spellings)
    return spelled, ", ".join(f"`{name}`" for name in option.variables), option.meaning + kind


def errors_page() -> str:
    """One fault, three languages."""
    rows = []
    for kind, number, exception, meaning in native.load().error_kinds():
        own = errors.CLASSES[kind].__name__
        also = f" (a `{exception}`)" if exception != own else ""
        code = known_kinds()[kind]
        rows.append((f"`{kind}`", errno_name(number), f"`{own}`{also}", f"{int(code)}", meaning))
    parts = [
        "# Errors",
        "What happened, as the file system says it (errno), as Python says it, and as a command says it (exit code). "
        "Every class is a `HeadraceError`, which is an `OSError` with `.kind` and `.hint`.",
        table(("kind", "errno", "Python", "exit code", "meaning"), rows),
    ]
    return page(parts)


def errno_name(number: int) -> str:
    """`ENOENT`."""
    # 95 has two names on Linux; ours is the one that file systems answer.
    return "`EOPNOTSUPP`" if number == errno.EOPNOTSUPP else f"`{errno.errorcode[number]}`"


def exit_codes_page() -> str:
    """What a command answers to its shell."""
    rows = [(str(int(code)), code.meaning) for code in ExitCode]
    return page(["# Exit codes", table(("code", "meaning"), rows)])


def metrics_page() -> str:
    """The metrics of every process: the engine's as a fresh one describes them, the master's from its table."""
    text = native.load().metric_definitions()
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    units = dict(re.findall(r"^# UNIT (\S+) (.*)$", text, re.MULTILINE))
    rows = [
        (
            f"`{name}{'_total' if kind == 'counter' else ''}`",
            kind,
            units.get(name, ""),
            helps.get(name, "").rstrip("."),
        )
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    ]
    parts = [
        "# Metrics",
        "In the OpenMetrics format. Mounts and workers answer at `/metrics` of their `--metrics-address`, the master "
        "at `/metrics` of its own address, operator, keeper of jobs and webhook beside their probes; "
        "`headrace metrics MOUNTPOINT` shows those of a mount.",
        "## Mounts and workers",
        table(METRIC_HEAD, rows),
        "Of a member of a cluster, besides:",
        table(METRIC_HEAD, [(f"`{name}`", "gauge", "", meaning) for name, meaning in MEMBER_METRICS.items()]),
        "## The CSI driver",
        families_table(CSI),
        "## The operator",
        families_table(OPERATOR),
        "## The keeper of jobs",
        families_table(JOBS),
        "## The webhook",
        families_table(WEBHOOK),
        "## The master",
        families_table(MASTER),
    ]
    return page(parts)


def reasons_page() -> str:
    """The one reason of each wait."""
    rows = [
        (f"`{reason.value}`", MEANINGS[reason].meaning, MEANINGS[reason].action, waits_text(MEANINGS[reason]))
        for reason in Reason
    ]
    parts = [
        "# Reasons",
        "Whatever a Dataset, a runtime or an operation waits for has exactly one reason. It stands in the condition "
        "`Ready` (status False) of a dataset that cannot be read, in `Degraded` of one that can be read although "
        "something is wrong, in `Terminating` of one that cannot be deleted yet, and in `Waiting` or `Failed` of an "
        "operation; the message says on what, and events carry the same words. `CacheOvercommitted` is a warning "
        "beside them, of quotas for which there is no room. A dataset that waits for longer than "
        "the reason allows is Failed, and recovers by itself once the cause is gone.",
        table(("reason", "meaning", "what to do", "fails after"), rows),
    ]
    return page(parts)


def conditions_page() -> str:
    """What each condition says."""
    parts = [
        "# Conditions",
        "What is true of an object now stands in `status.conditions`, one condition a type. One appears once it "
        "was so for the first time; `lastTransitionTime` says since when it is as it is. Reasons of waits: "
        "[reasons.md](reasons.md).",
    ]
    for kinds, meanings in condition_meanings.MEANINGS.items():
        rows = [(f"`{each}`", meaning) for each, meaning in meanings.items()]
        parts += [f"## {kinds}", table(("type", "True says"), rows)]
    return page(parts)


def waits_text(meaning: Meaning) -> str:
    """How long a wait may last."""
    if meaning.deadline_s is None:
        return "never"
    return format_duration(timedelta(seconds=meaning.deadline_s)) if meaning.deadline_s else "at once"


METRIC_HEAD = ("name", "kind", "unit", "meaning")
MEMBER_METRICS = {
    "headrace_mount_master_unreachable": "Of a mount: 1 while the master does not answer",
    "headrace_worker_master_unreachable": "Of a worker: the same",
}


def families_table(families: Iterable[Family]) -> str:
    """The metrics of one role."""
    rows = [(f"`{family.sample_name}`", family.kind, family.unit, family.meaning) for family in families]
    return table(METRIC_HEAD, rows)


PAGES: Mapping[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "arena.md": arena_page,
    "settings.md": settings_page,
    "roles.md": roles_page,
    "options.md": options_page,
    "errors.md": errors_page,
    "exit-codes.md": exit_codes_page,
    "metrics.md": metrics_page,
    "reasons.md": reasons_page,
    "conditions.md": conditions_page,
    "api.md": lambda: page(api_pages.reference()),
    "sdk.md": lambda: page(sdk_pages.reference()),
}


def page(parts: Sequence[str]) -> str:
    """A page of Markdown: title, note, the rest."""
    return "\n\n".join([parts[0], NOTE, *parts[1:]]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def first_paragraph(text: str | None) -> str:
    """The text up to the first empty line, as one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def all_files() -> dict[Path, str]:
    """Every generated file, from the root of the repository."""
    pages = {REFERENCE / name: make() for name, make in PAGES.items()}
    crds = api_pages.crds()
    picture = package_diagram.drawn((ROOT / package_diagram.PAGE).read_text(encoding="utf-8"))
    return {
        **pages,
        **man_pages.pages(ROOT),
        **{folder / name: text for folder in CRDS for name, text in crds.items()},
        package_diagram.PAGE: picture,
        overview_picture.PICTURE: overview_picture.drawn(),
    }


def main(arguments: Sequence[str]) -> int:
    """Writes the files, or names those that differ."""
    wanted = all_files()
    faults = generate_csi.main(arguments)
    if "--check" not in arguments:
        for file, text in wanted.items():
            (ROOT / file).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / file).write_text(text, encoding="utf-8")
        return 0
    old = [file for file, text in wanted.items() if not same(ROOT / file, text)]
    for file in old:
        sys.stderr.write(f"{file} is not up to date: run `make gen`\n")
    return 1 if old or faults else 0


def same(file: Path, text: str) -> bool:
    """True when the file holds exactly this text."""
    return file.is_file() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
