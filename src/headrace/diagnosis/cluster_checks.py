"""The check that Headrace is whole on a Kubernetes, and that the caller may use it. Pure: it decides by facts alone."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.api.names import GROUP, VERSION
from headrace.diagnosis.cluster_facts import ClusterFacts, ProgramFacts
from headrace.diagnosis.findings import Finding, Level, fault, good, note
from headrace.diagnosis.machine_checks import check_kernel
from headrace.diagnosis.nodes import NodeFacts

_INSTALL = "helm upgrade --install headrace deploy/chart, see docs/kubernetes.md"
_MOST_NAMED = 5


def check(facts: ClusterFacts, version: str) -> Iterator[Finding]:
    """Every finding; `version` is that of this command."""
    yield good("API server", f"Kubernetes {facts.server}")
    yield _kinds(facts)
    yield from _programs(facts, version)
    yield _driver(facts)
    yield _webhook(facts)
    yield from _nodes(facts.nodes)
    yield _rights(facts)
    for what, why in facts.unknown.items():
        yield note(what, f"not told: {why}", "ask as an administrator of the cluster")


def _kinds(facts: ClusterFacts) -> Finding:
    if facts.missing_kinds:
        missing = ", ".join(facts.missing_kinds)
        return fault(
            "CRDs", f"the cluster has no {missing} of {GROUP}", f"kubectl apply -f deploy/crds; or {_INSTALL}"
        )
    old = sorted(kind for kind, versions in facts.kinds.items() if VERSION not in versions)
    if old:
        text = f"{', '.join(old)} are served, but not as {VERSION}"
        return fault("CRDs", text, "kubectl apply -f deploy/crds")
    return good("CRDs", f"{len(facts.kinds)} kinds of {GROUP}/{VERSION}")


def _programs(facts: ClusterFacts, version: str) -> Iterator[Finding]:
    if {"deployments", "daemonsets"} & facts.unknown.keys():
        return
    there = {program.component: program for program in facts.programs}
    for component, title in (("operator", "operator"), ("csi", "CSI driver")):
        if component not in there:
            yield fault(title, "is not installed", _INSTALL)
    for program in facts.programs:
        yield _program(program, version)


def _program(program: ProgramFacts, version: str) -> Finding:
    text = f"{program.name}: {program.ready} of {program.wanted} ready"
    if program.ready < program.wanted:
        kind, name = (
            ("daemonset" if program.component == "csi" else "deployment"),
            program.name.partition("/"),
        )
        remedy = f"kubectl -n {name[0]} describe {kind} {name[2]}; kubectl -n {name[0]} logs {kind}/{name[2]}"
        return fault(program.component or program.name, text, remedy)
    if not program.wanted:
        remedy = "scale it up" if program.component != "csi" else "look at its nodeSelector and tolerations"
        return fault(program.component or program.name, f"{program.name}: none is wanted", remedy)
    if program.version and program.version != version:
        told = f"{text}; it is {program.version}, this command {version}"
        return note(program.component or program.name, told, "use the command of the same version")
    return good(program.component or program.name, f"{text}, {program.version}")


def _driver(facts: ClusterFacts) -> Finding:
    if facts.has_driver is False:
        return fault("CSIDriver", "is not registered: no pod can use a dataset's volume", _INSTALL)
    return good("CSIDriver", "registered") if facts.has_driver else note("CSIDriver", "could not be asked")


def _webhook(facts: ClusterFacts) -> Finding:
    lacking = sorted(name for name, has_authority in facts.webhooks.items() if not has_authority)
    if lacking:
        text = f"{', '.join(lacking)}: no authority is written into it, so the API server cannot reach it"
        return fault(
            "webhook", text, "the webhook writes it when it starts: look at its log, and at its rights"
        )
    is_running = any(program.component == "webhook" and program.ready for program in facts.programs)
    if facts.webhooks and not is_running:
        return fault(
            "webhook", "it is configured, but nothing answers", "start it, or uninstall its configuration"
        )
    if not facts.webhooks:
        return note(
            "webhook",
            "is not installed: pods are not drawn to the nodes of their data",
            "webhook.enabled=true",
        )
    return good("webhook", "configured, and answers")


def _nodes(nodes: tuple[NodeFacts, ...]) -> Iterator[Finding]:
    for node in nodes:
        if not node.is_ready:
            yield fault(f"node {node.name}", "is not ready", f"kubectl describe node {node.name}")
        elif node.trouble:
            yield note(
                f"node {node.name}", f"says {', '.join(node.trouble)}", f"kubectl describe node {node.name}"
            )
        elif not node.host_label:
            text = "has no label kubernetes.io/hostname, by which volumes are bound to nodes"
            yield fault(
                f"node {node.name}",
                text,
                f"kubectl label node {node.name} kubernetes.io/hostname={node.name}",
            )
        elif (kernel := check_kernel(node.kernel)).level is not Level.GOOD:
            yield Finding(f"node {node.name}", kernel.level, kernel.text, kernel.remedy)
    fine = [node for node in nodes if node.is_ready and not node.trouble]
    if nodes:
        yield good("nodes", f"{len(fine)} of {len(nodes)} ready and without complaints")


def _rights(facts: ClusterFacts) -> Finding:
    if not facts.refused_rights:
        return good("rights", "datasets, runtimes and loads may be made, changed and deleted")
    named = ", ".join(facts.refused_rights[:_MOST_NAMED])
    more = len(facts.refused_rights) - _MOST_NAMED
    text = f"you may not {named}{f' and {more} more' if more > 0 else ''}"
    return note("rights", text, "ask for a role with these rights in your namespace")
