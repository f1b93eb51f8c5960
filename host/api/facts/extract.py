#!/usr/bin/env python3
"""Extracts the facts of the Kubernetes API types into one table: names, numbers, types, list and patch keys; no prose.

Usage: extract.py SOURCES > v1.36.txt

SOURCES is a directory with checkouts, at the same release, of four published repositories: `api`, `apimachinery`,
`apiextensions-apiserver` and `kube-aggregator`. Field numbers and types come from each package's `generated.proto`, JSON
names and keys from the tags and markers of its Go files. The output is deterministic; `host/api/src/facts.rs` documents
and reads its form.
"""

import pathlib
import re
import sys

# directory, group ("-": types of no group of their own)
PACKAGES = [
    ("apimachinery/pkg/apis/meta/v1", "-"),
    ("apimachinery/pkg/api/resource", "-"),
    ("apimachinery/pkg/runtime", "-"),
    ("apimachinery/pkg/util/intstr", "-"),
    ("api/core/v1", ""),
    ("api/admission/v1", "admission.k8s.io"),
    ("api/admissionregistration/v1", "admissionregistration.k8s.io"),
    ("api/admissionregistration/v1alpha1", "admissionregistration.k8s.io"),
    ("api/admissionregistration/v1beta1", "admissionregistration.k8s.io"),
    ("api/apidiscovery/v2", "apidiscovery.k8s.io"),
    ("api/apiserverinternal/v1alpha1", "internal.apiserver.k8s.io"),
    ("api/apps/v1", "apps"),
    ("api/authentication/v1", "authentication.k8s.io"),
    ("api/authorization/v1", "authorization.k8s.io"),
    ("api/autoscaling/v1", "autoscaling"),
    ("api/autoscaling/v2", "autoscaling"),
    ("api/batch/v1", "batch"),
    ("api/certificates/v1", "certificates.k8s.io"),
    ("api/certificates/v1alpha1", "certificates.k8s.io"),
    ("api/certificates/v1beta1", "certificates.k8s.io"),
    ("api/coordination/v1", "coordination.k8s.io"),
    ("api/coordination/v1alpha2", "coordination.k8s.io"),
    ("api/coordination/v1beta1", "coordination.k8s.io"),
    ("api/discovery/v1", "discovery.k8s.io"),
    ("api/events/v1", "events.k8s.io"),
    ("api/flowcontrol/v1", "flowcontrol.apiserver.k8s.io"),
    ("api/networking/v1", "networking.k8s.io"),
    ("api/networking/v1beta1", "networking.k8s.io"),
    ("api/node/v1", "node.k8s.io"),
    ("api/policy/v1", "policy"),
    ("api/rbac/v1", "rbac.authorization.k8s.io"),
    ("api/resource/v1", "resource.k8s.io"),
    ("api/resource/v1alpha3", "resource.k8s.io"),
    ("api/resource/v1beta1", "resource.k8s.io"),
    ("api/resource/v1beta2", "resource.k8s.io"),
    ("api/scheduling/v1", "scheduling.k8s.io"),
    ("api/scheduling/v1alpha2", "scheduling.k8s.io"),
    ("api/storage/v1", "storage.k8s.io"),
    ("api/storage/v1beta1", "storage.k8s.io"),
    ("api/storagemigration/v1beta1", "storagemigration.k8s.io"),
    ("apiextensions-apiserver/pkg/apis/apiextensions/v1", "apiextensions.k8s.io"),
    ("kube-aggregator/pkg/apis/apiregistration/v1", "apiregistration.k8s.io"),
]

SCALARS = {"string": "s", "bytes": "y", "bool": "b", "int32": "i", "int64": "l", "double": "d", "uint32": "i"}

# messages whose JSON form is no object of their fields
SPECIAL = {
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "T",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "M",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Duration": "D",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "F",
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "Q",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "R",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "I",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": "J",
}

# messages that are left out: helpers of the codecs, never part of an object
LEFT_OUT = {"Patch", "Timestamp", "TypeMeta", "Unknown", "QuantityValue"}


class Message:
    def __init__(self, package, name):
        self.package, self.name = package, name
        self.fields = []  # (number, proto name, type, repeated, is map)


def read_proto(path):
    text = path.read_text()
    package = re.search(r"^package ([\w.]+);", text, re.M).group(1)
    messages = {}
    for name, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", text, re.S | re.M):
        message = messages[name] = Message(package, name)
        for line in body.splitlines():
            line = line.strip()
            found = re.match(r"(optional|repeated|required) ([\w.]+) (\w+) = (\d+);", line)
            if found:
                label, kind, field, number = found.groups()
                message.fields.append((int(number), field, kind, label == "repeated", False))
                continue
            found = re.match(r"map<string, ([\w.]+)> (\w+) = (\d+);", line)
            if found:
                kind, field, number = found.groups()
                message.fields.append((int(number), field, kind, False, True))
                continue
            if line and not line.startswith("//"):
                raise SystemExit(f"{path}: cannot read {line!r}")
    return package, messages


class Go:
    """Structs of one package: markers of the type, markers and tags of its fields by protobuf number."""

    def __init__(self, directory):
        self.structs = {}
        for path in sorted(directory.glob("*.go")):
            if path.name.endswith("_test.go") or path.name.startswith(("generated", "zz_")):
                continue
            self.read(path.read_text())

    def read(self, text):
        markers, struct = [], None
        for line in text.splitlines():
            stripped = line.strip()
            if struct is None:
                if stripped.startswith("//"):
                    markers += re.findall(r"^// ?\+(\S+)", stripped)
                    continue
                found = re.match(r"type (\w+) struct \{$", line) or re.match(r"\t(\w+) struct \{$", line)
                if found:
                    struct = self.structs[found.group(1)] = {"markers": markers, "fields": {}, "typed": False, "plain": False}
                    end = "}" if line.startswith("type") else "\t}"
                if stripped:
                    markers = []
                continue
            if line == end:
                struct, markers = None, []
                continue
            if stripped.startswith("//"):
                markers += re.findall(r"^// ?\+(\S+)", stripped)
                continue
            self.field(struct, stripped, markers)
            if stripped:
                markers = []

    @staticmethod
    def field(struct, line, markers):
        found = re.match(r"(?:(\w+)\s+)?([^\s`]+)\s+`(.*)`", line)
        if not found:
            return
        _, kind, tags = found.groups()
        tags = dict(re.findall(r'(\w+):"([^"]*)"', tags))
        protobuf = tags.get("protobuf", "").split(",")
        json = tags.get("json")
        if kind.endswith("TypeMeta"):
            struct["typed"] = True
            return
        if len(protobuf) < 2 or not protobuf[1].isdigit():
            return
        if json is None:
            struct["plain"] = True  # a codec of its own
        name, *options = (json or "").split(",")
        struct["fields"][int(protobuf[1])] = {
            "json": name,
            "inline": "inline" in options,
            "pointer": kind.startswith("*"),
            "always": not {"omitempty", "omitzero"} & set(options),
            "strategy": tags.get("patchStrategy", ""),
            "key": tags.get("patchMergeKey", ""),
            "markers": markers,
        }


def marker(markers, name):
    return [m.split("=", 1)[1] for m in markers if m.startswith(name + "=")]


class Table:
    def __init__(self, sources):
        self.packages, self.index, self.messages, self.go = [], {}, {}, {}
        for number, (directory, group) in enumerate(PACKAGES):
            directory = sources / directory
            package, messages = read_proto(directory / "generated.proto")
            self.packages.append((package, group))
            self.index[package] = number
            self.messages[package] = messages
            self.go[package] = Go(directory)

    def resolve(self, package, kind):
        """The table's word for a message or scalar, and whether it wraps a list of strings."""
        if kind in SCALARS:
            return SCALARS[kind]
        kind = kind.lstrip(".")
        home, _, name = kind.rpartition(".")
        home = home or package
        special = SPECIAL.get(f"{home}.{name}")
        if special:
            return special
        message = self.messages[home].get(name)
        if message is None:
            raise SystemExit(f"{package}: {kind} is unknown")
        if [f[1] for f in message.fields] == ["items"] and name not in self.go[home].structs:
            return "W"
        return f".{name}" if home == package else f"{self.index[home]}.{name}"

    def field(self, package, number, proto, kind, repeated, is_map, go):
        word = self.resolve(package, kind)
        word = ("[" if repeated else "{" if is_map else "") + word
        if go is None:
            return f" {proto} {number} {word}"
        flags = ("?" if go["pointer"] else "") + ("!" if go["always"] and not go["inline"] else "")
        name = "~" + proto if go["inline"] else (go["json"] or "-" + proto)
        words = [f" {name}", str(number), word + flags]
        if name != proto and not go["inline"] and go["json"]:
            words.append(f"proto={proto}")
        list_type = marker(go["markers"], "listType")
        if list_type and word[0] in "[W":  # one string field is marked as a list upstream
            keys = marker(go["markers"], "listMapKey")
            words.append(f"list={list_type[0]}" + (":" + ",".join(keys) if keys else ""))
        atomic = marker(go["markers"], "mapType") + marker(go["markers"], "structType")
        if atomic:
            words.append(f"map={atomic[0]}")
        if go["strategy"]:
            words.append(f"patch={go['strategy']}:{go['key']}")
        for default in marker(go["markers"], "default"):
            if not default.startswith(("ref(", "{")):  # constants by name, whole objects: no list's key is one
                words.append(f"default={default}")
        return " ".join(words)

    def write(self, out):
        for number, (package, group) in enumerate(self.packages):
            version = package.rpartition(".")[2] if group != "-" else "-"
            model = re.sub(r"^k8s\.io\.", "io.k8s.", package).replace("_", "-")
            print(f"@ {number} {model} {package} {group or 'core'} {version}", file=out)
            structs = self.go[package].structs
            for name, message in sorted(self.messages[package].items()):
                if name in LEFT_OUT or f"{package}.{name}" in SPECIAL or self.resolve(package, name) == "W":
                    continue
                struct = structs.get(name, {"markers": [], "fields": {}, "typed": False, "plain": False})
                runtime_object = any(m.startswith("k8s:deepcopy-gen:interfaces=") and "runtime.Object" in m for m in struct["markers"])
                words = [name]
                if (runtime_object or name == "List") and group != "-":
                    words.append("kind")
                elif struct["typed"]:
                    words.append("typed")
                if "atomic" in marker(struct["markers"], "structType") + marker(struct["markers"], "mapType"):
                    words.append("atomic")
                if struct["plain"]:
                    words.append("opaque")
                print(" ".join(words), file=out)
                for number_, proto, kind, repeated, is_map in sorted(message.fields):
                    go = struct["fields"].get(number_)
                    if go is None and struct["fields"]:
                        raise SystemExit(f"{package}.{name}: no Go field for {proto}")
                    print(self.field(package, number_, proto, kind, repeated, is_map, go), file=out)


def main():
    Table(pathlib.Path(sys.argv[1])).write(sys.stdout)


main()
