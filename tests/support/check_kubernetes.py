#!/usr/bin/env python3
"""Checks files for Kubernetes: usage: check_kubernetes.py FILE... | check_kubernetes.py --script FILE

Prints a line for each key that the API does not have, each value of another type, each that is lacking, and for each
two places of a file that do not fit together. --script prints what the container of a file's pods runs.
"""
import re
import sys

import yaml  # python3-yaml


class Map:
    """Keys of any name, with values of one shape."""

    def __init__(self, values):
        self.values = values


QUANTITY = (int, str)
# What the files use of the API of Kubernetes 1.33 and of JobSet v1alpha2: a type, several, the values of a choice, a
# list, or keys, of which those with "!" must be there.
LABELS = {"matchLabels": Map(str)}
METADATA = {"name!": str}
CONTAINER = {
    "name!": str, "image!": str, "command": [str], "args": [str],
    "ports": [{"name": str, "containerPort!": int}],
    "resources": {"requests": Map(QUANTITY), "limits": Map(QUANTITY)},
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool}],
}
VOLUME = {
    "name!": str,
    "configMap": {"name": str},
    "secret": {"secretName": str, "defaultMode": int},
    "persistentVolumeClaim": {"claimName!": str},
    "emptyDir": {"medium": {"", "Memory"}, "sizeLimit": QUANTITY},
}
POD = {
    "subdomain": str, "restartPolicy!": {"Never", "OnFailure"}, "terminationGracePeriodSeconds": int,
    "topologySpreadConstraints": [{"maxSkew!": int, "topologyKey!": str, "labelSelector": LABELS,
                                   "whenUnsatisfiable!": {"DoNotSchedule", "ScheduleAnyway"}}],
    "containers!": [CONTAINER], "volumes": [VOLUME],
}
RULE = {
    "action!": {"Ignore", "FailJob", "FailIndex", "Count"},
    "onPodConditions": [{"type!": str, "status!": {"True", "False", "Unknown"}}],
    "onExitCodes": {"containerName": str, "operator!": {"In", "NotIn"}, "values!": [int]},
}
JOB = {
    "completionMode": {"Indexed", "NonIndexed"}, "completions": int, "parallelism": int, "backoffLimitPerIndex": int,
    "podReplacementPolicy": {"Failed", "TerminatingOrFailed"}, "podFailurePolicy": {"rules!": [RULE]},
    "successPolicy": {"rules!": [{"succeededIndexes": str, "succeededCount": int}]},
    "template!": {"metadata": {"labels": Map(str)}, "spec": POD},
}
SERVICE = {"clusterIP": str, "publishNotReadyAddresses": bool, "selector": Map(str),
           "ports!": [{"name": str, "port!": int}]}
JOB_SET = {
    "network": {"enableDNSHostnames": bool, "subdomain": str, "publishNotReadyAddresses": bool},
    "failurePolicy": {"maxRestarts": int, "rules": [{"action!": {"FailJobSet", "RestartJobSet"},
                                                     "onJobFailureReasons": [str]}]},
    "replicatedJobs!": [{"name!": str, "replicas": int, "template!": {"spec": JOB}}],
}
NETWORK_POLICY = {"podSelector!": LABELS, "policyTypes": [{"Ingress", "Egress"}],
                  "ingress": [{"from": [{"podSelector": LABELS}]}]}
KINDS = {"Service": ("v1", SERVICE), "Job": ("batch/v1", JOB), "JobSet": ("jobset.x-k8s.io/v1alpha2", JOB_SET),
         "NetworkPolicy": ("networking.k8s.io/v1", NETWORK_POLICY)}


def faults_of(value, shape, place):
    """Where a value is not of its shape."""
    if isinstance(shape, Map):
        if not isinstance(value, dict):
            yield f"{place}: no keys"
        else:
            for key, inner in value.items():
                yield from faults_of(inner, shape.values, f"{place}.{key}")
    elif isinstance(shape, dict):
        keys = {key.rstrip("!"): inner for key, inner in shape.items()}
        for key in shape:
            if key.endswith("!") and key[:-1] not in (value or {}):
                yield f"{place}.{key[:-1]} is lacking"
        for key, inner in (value or {}).items():
            if key in keys:
                yield from faults_of(inner, keys[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: no such key"
    elif isinstance(shape, list):
        for number, inner in enumerate(value if isinstance(value, list) else []):
            yield from faults_of(inner, shape[0], f"{place}[{number}]")
        if not isinstance(value, list):
            yield f"{place}: no list"
    elif isinstance(shape, set):
        if value not in shape:
            yield f"{place}: {value!r} is none of {sorted(shape)}"
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        yield f"{place}: {value!r} is of another type"


def jobs_of(document):
    """(name of the first pod as others find it, job) of each job that a document makes."""
    name, spec = document["metadata"]["name"], document["spec"]
    if document["kind"] == "Job":
        yield f"{name}-0.{spec['template']['spec'].get('subdomain')}", spec
    for job in spec.get("replicatedJobs", []):
        yield f"{name}-{job['name']}-0-0.{spec['network'].get('subdomain', name)}", job["template"]["spec"]


def faults_of_pods(first_pod, job):
    """What of a job does not fit together, or is not as a run needs it."""
    labels, pod = job["template"]["metadata"]["labels"], job["template"]["spec"]
    container = pod["containers"][0]
    script = container["args"][-1]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    port = container["ports"][0]["containerPort"]
    rules = job["podFailurePolicy"]["rules"]
    token = re.search(r"--token-file (\S+)/", script)
    secret = volumes.get(mounts.get(token[1] if token else ""), {}).get("secret", {})
    memory = volumes.get(mounts.get("/dev/shm"), {}).get("emptyDir", {})
    wanted = {
        "pods are numbered": job.get("completionMode") == "Indexed",
        "all pods run at once": job.get("completions") == job.get("parallelism"),
        "the launch waits for all": set(re.findall(r"--wait-for-hosts (\d+)", script)) == {str(job["completions"])},
        "the first pod is the rendezvous": re.findall(r"--rendezvous (\S+)", script) == [f"{first_pod}:{port}"],
        "each pod may fail": job.get("backoffLimitPerIndex", 0) > 0 and pod["restartPolicy"] == "Never",
        "a pod has one life at a time": job.get("podReplacementPolicy") == "Failed",
        "a disruption is no failure": rules[0]["action"] == "Ignore" and
                                      rules[0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}],
        "a wrong manifest ends the job": rules[1].get("onExitCodes", {}).get("values") == [64, 65, 78],
        "rules name the container": rules[1]["onExitCodes"].get("containerName") == container["name"],
        "the launch decides when it is done": job["successPolicy"]["rules"] == [{"succeededIndexes": "0"}],
        "a drain has time": pod.get("terminationGracePeriodSeconds", 30) >= 120,
        "only its owner reads the token": secret.get("defaultMode") == 0o400,
        "shared memory is memory": memory.get("medium") == "Memory",
        "mounts and volumes are the same": sorted(mounts.values()) == sorted(volumes),
        "pods are spread by their label": pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == labels,
    }
    return [f"not so: {what}" for what, holds in wanted.items() if not holds]


def faults_of_documents(documents):
    faults = []
    for document in documents:
        kind = document.get("kind")
        version, shape = KINDS.get(kind, (None, {}))
        whole = {"apiVersion!": {version}, "kind!": set(KINDS), "metadata!": METADATA, "spec!": shape}
        faults += faults_of(document, whole, kind)
    if faults:
        return faults  # what follows reads keys that may not be there
    for document in documents:
        for first_pod, job in jobs_of(document):
            faults += faults_of_pods(first_pod, job)
    services = [document for document in documents if document["kind"] == "Service"]
    jobs = [document for document in documents if document["kind"] == "Job"]
    for service, job in zip(services, jobs, strict=True):
        pod, spec = job["spec"]["template"]["spec"], service["spec"]
        if pod["subdomain"] != service["metadata"]["name"] or spec["selector"] != {"job-name": job["metadata"]["name"]}:
            faults.append("not so: the Service is of the Job's pods")
        if spec["clusterIP"] != "None" or not spec["publishNotReadyAddresses"]:
            faults.append("not so: pods have names before they are ready")
        if spec["ports"][0]["port"] != pod["containers"][0]["ports"][0]["containerPort"]:
            faults.append("not so: the Service has the pods' port")
    return faults


def read(path):
    with open(path) as file:
        return list(yaml.safe_load_all(file))


def main():
    if sys.argv[1:2] == ["--script"]:
        for document in read(sys.argv[2]):
            for _, job in jobs_of(document):
                print(job["template"]["spec"]["containers"][0]["args"][-1])
        return
    for path in sys.argv[1:]:
        for fault in faults_of_documents(read(path)):
            print(f"{path}: {fault}")


main()
