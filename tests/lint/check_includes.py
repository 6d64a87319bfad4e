#!/usr/bin/env python3
"""Which file may include which: the order of folders and of subfolders, the libraries that a folder may use, and
the own header first."""
import re

from tree import FOLDERS, ROOT, files, finish, lines

# folder -> the other folders whose headers it may include
MAY_INCLUDE = {
    "tensor": set(),
    "schedules": set(),
    "transport": {"tensor"},
    "stages": {"tensor"},
    "actors": {"schedules", "stages", "transport", "tensor"},
    "launch": {"actors", "schedules", "stages", "transport", "tensor"},
    "tests": set(FOLDERS),
}
BESIDE = "files beside the rooms"
# folder -> its rooms, each with the others whose headers it may include, and the rooms within them; files beside the
# rooms are one, too.
ROOMS = {
    "tensor": {
        "errors": set(),
        "values": {"errors"},
        "device": {"errors", "values"},
        "libraries": {"errors", "values", "device"},
        "parallel": {"errors", "values", "device"},
        "cpu/loops": {"errors", "values"},
        "cpu/ops": {"errors", "values", "device", "cpu/loops"},
        "cpu/products": {"errors", "values", "device", "cpu/loops"},
        "cpu/attention": {"errors", "values", "device", "cpu/loops", "cpu/products"},
        "cpu": {"errors", "values", "device", "cpu"},
        "cuda/kernels/grid": {"errors", "values"},
        "cuda/kernels/attention": {"errors", "values", "cuda/kernels/grid"},
        "cuda/kernels/elements": {"errors", "values", "device", "cuda/kernels/grid"},
        "cuda/kernels/embedding": {"errors", "values", "cuda/kernels/grid"},
        "cuda/kernels/rows": {"errors", "values", "cuda/kernels/grid"},
        "cuda/kernels/losses": {"errors", "values", "cuda/kernels/grid", "cuda/kernels/rows"},
        "cuda/runtime": {"errors", "values", "device", "libraries", "cuda/kernels/grid"},
        "cuda/products": {"errors", "values", "device", "cuda/runtime"},
        "cuda/attention": {"errors", "values", "device", "cuda/kernels/attention", "cuda/runtime"},
        "cuda": {"errors", "values", "device", "libraries", "cuda"},
    },
    "schedules": {
        "plan": set(),
        "analysis": {"plan"},
        "drawing": {"plan", "analysis"},
        "generators": {"plan", "analysis"},
        "planner": {"plan", "analysis"},
    },
    "transport": {
        "memory": set(),
        "wire": {"memory"},
        "edges": {"wire", "memory"},
        "ucx": {"wire", "memory", "edges"},
        "collectives": {"wire", "memory", "edges", "ucx"},
        "node": {"wire", "memory", "edges", "ucx", "collectives"},
    },
    "stages": {
        "model": set(),
        "storage": set(),
        "corpus/tokenizers/text": {"storage"},
        "corpus/tokenizers/models": {"corpus/tokenizers/text"},
        "corpus/tokenizers": {"storage", "corpus/tokenizers"},
        "corpus/chat/jinja/values": {"corpus/tokenizers/text"},
        "corpus/chat/jinja": {"corpus/tokenizers/text", "corpus/chat/jinja/values"},
        "corpus/chat": {"storage", "corpus/tokenizers", "corpus/chat"},
        "corpus/text": {"storage", "corpus/tokenizers", "corpus/chat"},
        "corpus/tokens": {"storage", "corpus/tokenizers", "corpus/chat", "corpus/text"},
        "corpus/samples": {"corpus/text", "corpus/tokens"},
        "corpus": {"corpus"},
        "stage": {"model", "corpus/text"},
        "decoder/layers": {"model", "stage"},
        "decoder/parameters": {"model", "stage", "decoder/layers"},
        "decoder/chunk": {"model", "stage", "decoder/layers", "decoder/parameters"},
        "decoder/stage": {"model", "stage", "decoder/layers", "decoder/parameters", "decoder/chunk"},
        "replicas": {"model", "stage", "decoder/parameters", "decoder/chunk"},
        "inference": {"model", "corpus", "stage", "decoder/layers", "decoder/parameters"},
        "files/safetensors": {"model", "storage", "corpus/tokenizers/text"},
        "files/hugging_face": {"model", "storage", "corpus/tokenizers", "files/safetensors"},
        "files/peft": {"model", "storage", "corpus/tokenizers/text", "files/safetensors", "files/hugging_face"},
        "files/checkpoint": {
            "model", "storage", "corpus/text", "stage", "files/safetensors", "files/hugging_face", "files/peft"
        },
        "files/copies": {
            "model", "storage", "files/safetensors", "files/hugging_face", "files/peft", "files/checkpoint"
        },
    },
    "actors": {
        "topology/reports": set(),
        "topology": {"topology"},
        "security": set(),
        "inference": set(),
        "monitors": {"topology"},
        "messages": {"topology", "monitors"},
        "protocol/hosts": {"topology", "messages", "protocol"},
        "protocol": {"topology", "messages", "protocol"},
        "tuning": {"topology", "messages"},
        "worker/step": {"topology", "messages", "monitors"},
        "worker/state": {"topology", "messages"},
        "worker": {"topology", "messages", "monitors", "protocol", "tuning", "worker"},
        "files": {"topology", "messages"},
        "agent": {"topology", "security", "messages", "protocol", "files"},
        "hosts": {"topology", "security", "monitors", "messages", "protocol", "files", "agent"},
        "director": {"topology", "security", "messages", "monitors", "protocol", "tuning", "files", "agent", "hosts"},
    },
    "launch": {
        "host": set(),
        "manifest/keys": set(),
        "manifest/toml": {"host", "manifest/keys"},
        "manifest/resolve": {"host", "manifest/keys", "manifest/toml"},
        "manifest/checks": {"host", "manifest/keys", "manifest/toml", "manifest/resolve"},
        "manifest/inputs": {"host", "manifest/keys", "manifest/toml", "manifest/resolve", "manifest/checks"},
        "planner": {"host", "manifest"},
        "run": {"host", "manifest"},
        "control": {"host", "manifest", "run"},
        "hosts": {"host", "manifest"},
        "monitors": {"host", "manifest", "run", "control"},
        "charts": {"host"},
        "report": {"host", "manifest", "planner", "run", "control", "monitors", "charts"},
        "watch": {"host", "manifest", "run", "control", "monitors", "charts", "report"},
        "web": {"host", "manifest", "run", "control", "monitors", "charts", "report", "watch"},
        "screen": {"host", "manifest", "run", "control", "monitors", "charts", "report", "watch"},
        "commands": {"host", "hosts", "manifest", "run", "control", "monitors", "charts", "report"},
        "commands/models": {"host", "manifest", "run", "control", "commands"},
        "commands/runs": {"host", "manifest", "run", "control", "monitors", "charts", "report", "screen", "commands"},
        "commands/launching": {"host", "hosts", "manifest", "planner", "run", "control", "monitors", "report", "watch",
                               "web", "screen", "commands"},
        "examples": {"monitors"},
        BESIDE: {"commands", "host"},
    },
}
# room -> the only headers of other folders that it may include
ROOM_SEES = {
    "actors/topology": ("schedules/", "stages/", "tensor/", "transport/edges/channel.h", "transport/wire/edge.h",
                       "transport/wire/edge_placement.h",
                       "transport/collectives/collective_memory.h"),
}
# room -> libraries that it may not include, although its folder may
ROOM_LACKS = {
    "actors/topology": ("caf",),
    "actors/inference": ("caf",),
    "actors/protocol": ("caf",),
    "actors/tuning": ("caf",),
}
# first part of a library's header -> where it may be included, as prefixes of paths
LIBRARIES = {
    # Besides the actors themselves: the base of monitors that users write as actors, and an example of one.
    "caf": ("actors/", "tests/actors/", "tests/bench/control_plane.", "tests/support/null_run.",
            "tests/support/null_workers.", "tests/support/number_extremes.",
            "launch/monitors/monitor_actor.", "launch/examples/"),
    "openssl": ("actors/security/", "tests/actors/security/"),
    "capnp": ("transport/", "tests/"),
    "kj": ("transport/", "tests/"),
    "ucp": ("transport/", "tests/"),
    "uct": ("transport/", "tests/"),
    "ucs": ("transport/", "tests/"),
    "oneapi": ("tensor/cpu/", "tests/"),
    "dnnl": ("tensor/cpu/", "tests/"),
    "hwy": ("tensor/cpu/", "tests/"),
    "cuda_runtime": ("tensor/cuda/", "tests/"),
    "cuda_runtime_api": ("tensor/cuda/", "tests/"),
    "cuda_bf16": ("tensor/cuda/kernels/", "tests/"),
    "cudnn": ("tensor/cuda/", "tests/"),
    "vector_types": ("tests/emulated_grid/",),
    "vector_functions": ("tests/emulated_grid/",),
    "emulated_grid": ("tensor/cuda/kernels/grid/grid.",),
    "cublasLt": ("tensor/cuda/", "tests/"),
    "cudnn_frontend": ("tensor/cuda/attention/cudnn_plan.",),
    "nccl": ("tensor/cuda/nccl/", "tests/"),
    "toml++": ("launch/", "tests/"),
    "CLI": ("launch/", "tests/"),
    "prometheus": ("launch/monitors/prometheus.",),
    "CivetServer": ("launch/web/",),
    "Random123": ("tensor/values/random.",),
    "pcre2": ("stages/corpus/tokenizers/",),
    "utf8proc": ("stages/corpus/tokenizers/",),
    "boost": ("transport/", "launch/monitors/tfrecord.", "tests/"),
}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path):
    """(line, quote, header) of each include of a file."""
    for number, text in lines(path):
        match = INCLUDE.match(text)
        if match:
            yield number, match[1], match[2]


def faults_of_include(path, number, quote, header):
    where = f"{path}:{number}: "
    folder, target = path.parts[0], header.split("/")[0]
    if quote == "<":
        allowed = LIBRARIES.get(re.sub(r"\.\w+$", "", target))
        if target in FOLDERS:
            yield where + f'<{header}> is ours: write "{header}"'
        elif folder == "schedules" and ("/" in header or "." in header):
            yield where + f"<{header}> is not of the standard library, which schedules use alone"
        elif allowed and not str(path).startswith(allowed):
            yield where + f"<{header}> may be included only in {', '.join(allowed)}"
    elif target not in FOLDERS:
        yield where + f'"{header}" does not start with a folder of the tree'
    elif target != folder and target not in MAY_INCLUDE[folder]:
        may = ", ".join(sorted(MAY_INCLUDE[folder])) or "no other folder"
        yield where + f'"{header}": {folder} may include {may}'


def room_of(parts):
    """The room a path lies in; a folder within its folder that is none, if it is in no room."""
    rooms = ROOMS[parts[0]]
    for end in range(len(parts) - 1, 1, -1):
        if "/".join(parts[1:end]) in rooms:
            return "/".join(parts[1:end])
    return parts[1] if len(parts) > 2 else BESIDE


def faults_of_room(path, number, quote, header):
    where = f"{path}:{number}: "
    folder = path.parts[0]
    if folder not in ROOMS:
        return
    room = room_of(path.parts)
    if room not in ROOMS[folder]:
        yield where + f"{folder}/{room} is no room: {', '.join(ROOMS[folder])}"
        return
    name = f"{folder}/{room}"
    if quote == "<":
        if re.sub(r"\.\w+$", "", header.split("/")[0]) in ROOM_LACKS.get(name, ()):
            yield where + f"<{header}>: {name} does without"
    elif header.startswith(folder + "/"):
        target = room_of(header.split("/"))
        may_include = ROOMS[folder][room]
        if target != room and not any(target == other or target.startswith(other + "/") for other in may_include):
            may = ", ".join(sorted(may_include)) or "no other room"
            yield where + f'"{header}": {name} may include {may}'
    elif name in ROOM_SEES and not header.startswith(ROOM_SEES[name]):
        yield where + f'"{header}": of other folders, {name} may include {", ".join(ROOM_SEES[name])}'


def own_header(path):
    """The header that a source must include first, so that each header compiles alone."""
    header = path.with_suffix(".h")
    if path.suffix in (".cpp", ".cu") and path.parts[0] != "tests" and (ROOT / header).exists():
        return str(header)
    return None


def main():
    faults = []
    for path in files(".h", ".cpp", ".cu"):
        found = list(includes(path))
        for include in found:
            faults += faults_of_include(path, *include)
            faults += faults_of_room(path, *include)
        own = own_header(path)
        if own and (not found or found[0][2] != own):
            faults.append(f'{path}:1: the first include is not "{own}"')
    finish("includes", faults)


main()
