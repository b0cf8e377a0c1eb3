#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write what programs are made of: an SPDX 2.3 document, and the licence texts that go with it.

The crates are those that cargo links into the named packages for a target and a set of features.
The same input gives the same bytes: time and name are arguments, all lists are sorted.

  dist-sbom.py write --name ample --version 0.1.0 --epoch 0 --out ample.spdx.json
      --packages ample-cli --features "watch bpf" [--target TRIPLE] [--notices FILE]
  dist-sbom.py check FILE...      judge documents
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)
ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+\Z")
LICENCE = re.compile(r"[A-Za-z0-9.+-]+\Z")
FIELDS = ("name", "SPDXID", "versionInfo", "downloadLocation", "licenseDeclared",
          "licenseConcluded", "copyrightText", "filesAnalyzed")


def cargo(*arguments):
    """Standard output of cargo, in the root of the tree."""
    command = [os.environ.get("CARGO", "cargo"), *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(package, features, target):
    """The crates of a package and who uses whom: ({(name, version)}, {(user, used)})."""
    text = cargo("tree", "--locked", "-p", package, "--no-default-features", "--features",
                 features, "--target", target, "--edges", "normal", "--prefix", "depth",
                 "--format", " {p}")
    crates, edges, above = set(), set(), []
    for line in text.splitlines():
        depth, name, version = line.split()[:3]
        crate = (name, version.removeprefix("v"))
        crates.add(crate)
        del above[int(depth):]
        if above:
            edges.add((above[-1], crate))
        above.append(crate)
    return crates, edges


def licence(text):
    """A licence expression of a manifest as SPDX writes it."""
    return re.sub(r"\s*/\s*", " OR ", text) if text else "NOASSERTION"


def identifier(crate):
    """The name of a crate within a document."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{crate[0]}-{crate[1]}")


def entry(crate, manifest, checksum):
    """A crate as a package of the document."""
    declared = licence(manifest["license"])
    own = {
        "SPDXID": identifier(crate),
        "name": crate[0],
        "versionInfo": crate[1],
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": declared,
        "licenseDeclared": declared,
        "copyrightText": "NOASSERTION",
        "supplier": "NOASSERTION",
    }
    if checksum:
        own["checksums"] = [{"algorithm": "SHA256", "checksumValue": checksum}]
        own["externalRefs"] = [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": f"pkg:cargo/{crate[0]}@{crate[1]}",
        }]
    return own


def standard_library():
    """Rust's standard library, which every program contains."""
    verbose = subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True)
    crate = ("std", verbose.stdout.split()[1])
    return crate, entry(crate, {"license": "MIT OR Apache-2.0"}, None)


def document(options, crates, edges, manifests):
    """The whole document."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(own["name"], own["version"]): own.get("checksum") for own in locked}
    std, std_entry = standard_library()
    root = {**entry((options.name, options.version), {"license": "MIT OR Apache-2.0"}, None),
            "SPDXID": "SPDXRef-Product"}
    packages = [root] + [entry(one, manifests[one], sums[one]) for one in sorted(crates)]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Product"),
                 ("SPDXRef-Product", "DEPENDS_ON", identifier(std))]
    for one in sorted(crates):
        if one[0] in options.packages:
            relations.append(("SPDXRef-Product", "CONTAINS", identifier(one)))
    relations += [(identifier(a), "DEPENDS_ON", identifier(b)) for a, b in sorted(edges)]
    made = datetime.datetime.fromtimestamp(options.epoch, datetime.timezone.utc)
    body = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{options.name}-{options.version}",
        "creationInfo": {
            "created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: ample-dist-sbom"],
        },
        "packages": packages + [std_entry],
        "relationships": [
            {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
            for a, kind, b in relations
        ],
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    body["documentNamespace"] = f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=5)}"
    return body


def notices(crates, manifests):
    """Licence texts of the crates of others, each text once."""
    users, foreign = {}, []
    for crate in sorted(crates):
        manifest = manifests[crate]
        if manifest["source"] is None:
            continue
        foreign.append(f"{crate[0]} {crate[1]}: {licence(manifest['license'])}")
        folder = Path(manifest["manifest_path"]).parent
        for file in sorted(folder.iterdir()):
            if file.is_file() and TEXTS.match(file.name):
                text = file.read_text(encoding="utf-8", errors="replace").strip()
                users.setdefault(text, []).append(f"{crate[0]} {crate[1]}")
    parts = ["Crates of others that the programs of this package contain:\n\n"
             + "\n".join(foreign)]
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        parts.append("Of " + ", ".join(sorted(set(names))) + ":\n\n" + text)
    return ("\n\n" + "-" * 72 + "\n\n").join(parts) + "\n"


def write(options):
    """Makes the document, judges it, writes it."""
    metadata = json.loads(cargo("metadata", "--locked", "--all-features", "--format-version", "1"))
    manifests = {(own["name"], own["version"]): own for own in metadata["packages"]}
    crates, edges = set(), set()
    for package in options.packages:
        more, uses = linked(package, options.features, options.target)
        crates |= more
        edges |= uses
    body = document(options, crates, edges, manifests)
    faults = judge(body)
    if faults:
        raise SystemExit(f"dist-sbom: {options.name}: " + "; ".join(faults))
    options.out.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n")
    if options.notices:
        options.notices.write_text(notices(crates, manifests))
    print(f"{options.out.name}: {len(crates)} crates, {len(edges)} uses", file=sys.stderr)


def bad_licence(text):
    """Whether this is no expression of SPDX identifiers."""
    words = re.sub(r"[()]", " ", text).split()
    operators = {"OR", "AND", "WITH"}
    names = [word for word in words if word not in operators]
    return not names or not all(LICENCE.match(name) for name in names)


def judge_packages(packages):
    """What is wrong with the packages of a document."""
    for own in packages:
        name = own.get("name", "a package")
        for field in FIELDS:
            if field not in own or own[field] == "":
                yield f"{name} has no {field}"
        if not ID.match(own.get("SPDXID", "")):
            yield f"{name} has a bad SPDXID"
        if bad_licence(own.get("licenseDeclared", "")):
            yield f"{name} has the licence {own.get('licenseDeclared')!r}"
        for checksum in own.get("checksums", []):
            if not re.fullmatch(r"[0-9a-f]{64}", checksum.get("checksumValue", "")):
                yield f"{name} has a bad checksum"


def judge(body):
    """What is wrong with a document; nothing when it is a valid one that hangs together."""
    if not isinstance(body, dict):
        return ["not an object"]
    faults = []
    if body.get("spdxVersion") != "SPDX-2.3" or body.get("dataLicense") != "CC0-1.0":
        faults.append("not SPDX 2.3 under CC0-1.0")
    for field in ("name", "documentNamespace", "creationInfo", "packages", "relationships"):
        if not body.get(field):
            faults.append(f"no {field}")
    created = (body.get("creationInfo") or {}).get("created", "")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created):
        faults.append("no time of creation")
    packages = body.get("packages") or []
    faults += judge_packages(packages)
    names = [own.get("SPDXID") for own in packages] + ["SPDXRef-DOCUMENT"]
    if len(names) != len(set(names)):
        faults.append("an SPDXID occurs twice")
    reached = {"SPDXRef-DOCUMENT"}
    relations = [(one.get("spdxElementId"), one.get("relatedSpdxElement"))
                 for one in body.get("relationships") or []]
    for pair in relations:
        faults += [f"a relationship names {end}, which is not there"
                   for end in pair if end not in names]
    grown = True
    while grown:
        more = {b for a, b in relations if a in reached} - reached
        reached |= more
        grown = bool(more)
    faults += [f"nothing uses {name}" for name in sorted(set(names) - reached, key=str)]
    return faults


def check(options):
    """Judges documents that were written before."""
    for file in options.files:
        try:
            faults = judge(json.loads(file.read_text()))
        except (OSError, ValueError) as error:
            faults = [str(error)]
        if faults:
            raise SystemExit(f"dist-sbom: {file}: " + "; ".join(faults[:10]))


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    writer = commands.add_parser("write", help="write a document")
    writer.add_argument("--name", required=True)
    writer.add_argument("--version", required=True)
    writer.add_argument("--epoch", type=int, required=True)
    writer.add_argument("--out", type=Path, required=True)
    writer.add_argument("--notices", type=Path)
    writer.add_argument("--packages", nargs="+", required=True)
    writer.add_argument("--features", default="")
    writer.add_argument("--target", default="x86_64-unknown-linux-gnu")
    writer.set_defaults(run=write)
    checker = commands.add_parser("check", help="judge documents")
    checker.add_argument("files", type=Path, nargs="+")
    checker.set_defaults(run=check)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
