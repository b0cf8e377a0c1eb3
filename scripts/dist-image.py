#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes a container image of the static command for several architectures, without a daemon: an
OCI image layout in a tar file, the same bytes for the same input. `check` reads one back: every
digest and size, every layer.

usage: dist-image.py write --version V --epoch SECONDS --out FILE [--notices FILE]
           ARCHITECTURE=PROGRAM...
       dist-image.py check FILE
       dist-image.py unpack FILE ARCHITECTURE FOLDER
Architectures by the names of images: amd64, arm64. Notices: the licence texts of what the programs
contain. Exit: 0, or 1 when the image is not whole.
"""

import argparse
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPE = "application/vnd.oci.image."
LICENCES = "MIT OR Apache-2.0"


def packed(files, epoch):
    """A tar of (name, bytes, mode), folders made on the way, owned by root."""
    buffer, made = io.BytesIO(), set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        def put(name, kind, mode, content=b""):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.mtime, entry.size = kind, mode, epoch, len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, content, mode in files:
            for folder in reversed(Path(name).parents[:-1]):
                if str(folder) not in made:
                    made.add(str(folder))
                    put(f"{folder}", tarfile.DIRTYPE, 0o755)
            put(name, tarfile.REGTYPE, mode, content)
    return buffer.getvalue()


class Layout:
    """The blobs of an image, by digest."""

    def __init__(self):
        self.blobs = {}

    def add(self, kind, content, **more):
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return {"mediaType": TYPE + kind, "digest": f"sha256:{digest}", "size": len(content),
                **more}

    def add_json(self, kind, value, **more):
        return self.add(kind, json.dumps(value, sort_keys=True).encode(), **more)


def image(layout, architecture, program, options):
    """Adds the image of one architecture; its descriptor."""
    files = [("usr/bin/ample", Path(program).read_bytes(), 0o755)]
    files += [(f"usr/share/doc/ample/{path.name}", path.read_bytes(), 0o644)
              for path in sorted((ROOT / "LICENSES").iterdir())]
    if options.notices:
        files.append(("usr/share/doc/ample/NOTICES", options.notices.read_bytes(), 0o644))
    plain = packed(files, options.epoch)
    layer = layout.add("layer.v1.tar+gzip", gzip.compress(plain, 9, mtime=0))
    created = datetime.fromtimestamp(options.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = layout.add_json("config.v1+json", {
        "created": created, "architecture": architecture, "os": "linux",
        "config": {"Entrypoint": ["/usr/bin/ample"], "Env": ["PATH=/usr/bin"], "Labels": {
            "org.opencontainers.image.title": "ample",
            "org.opencontainers.image.version": options.version,
            "org.opencontainers.image.licenses": LICENCES}},
        "rootfs": {"type": "layers",
                   "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
        "history": [{"created": created, "created_by": "the static command of ample"}]})
    return layout.add_json("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": TYPE + "manifest.v1+json", "config": config,
        "layers": [layer]}, platform={"architecture": architecture, "os": "linux"})


def write(options):
    layout = Layout()
    tag = re.sub(r"[^A-Za-z0-9._]+", "-", options.version)
    manifests = [image(layout, *one.split("=", 1), options) for one in options.programs]
    whole = layout.add_json("index.v1+json", {
        "schemaVersion": 2, "mediaType": TYPE + "index.v1+json", "manifests": manifests},
        annotations={"org.opencontainers.image.ref.name": f"localhost/ample:{tag}"})
    index = {"schemaVersion": 2, "mediaType": TYPE + "index.v1+json", "manifests": [whole]}
    files = [("oci-layout", b'{"imageLayoutVersion": "1.0.0"}', 0o644),
             ("index.json", json.dumps(index, sort_keys=True).encode(), 0o644)]
    files += [(f"blobs/sha256/{digest}", content, 0o644)
              for digest, content in sorted(layout.blobs.items())]
    options.out.write_bytes(packed(files, options.epoch))


class Image:
    """An image that is read back; every blob is compared with its descriptor."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {member.name: tar.extractfile(member).read()
                          for member in tar.getmembers() if member.isfile()}
        require("oci-layout" in self.files and "index.json" in self.files, "no image layout")
        top = json.loads(self.files["index.json"])["manifests"]
        require(len(top) == 1, "more than one index")
        self.manifests = json.loads(self.blob(top[0]))["manifests"]

    def blob(self, descriptor):
        algorithm, digest = descriptor["digest"].split(":")
        content = self.files.get(f"blobs/{algorithm}/{digest}", b"")
        require(len(content) == descriptor["size"]
                and hashlib.sha256(content).hexdigest() == digest, f"{digest} is not whole")
        return content

    def layer(self, architecture):
        """The tar of the one layer of an architecture."""
        own = [m for m in self.manifests if m["platform"]["architecture"] == architecture]
        require(len(own) == 1, f"no image for {architecture}")
        manifest = json.loads(self.blob(own[0]))
        config = json.loads(self.blob(manifest["config"]))
        plain = gzip.decompress(self.blob(manifest["layers"][0]))
        require(config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"],
                "the layer is not that of the configuration")
        require(config["architecture"] == architecture, "two architectures in one image")
        return plain


def require(holds, what):
    if not holds:
        sys.exit(f"dist-image.py: {what}")


def check(options):
    found = Image(options.file)
    for manifest in found.manifests:
        found.layer(manifest["platform"]["architecture"])


def unpack(options):
    with tarfile.open(fileobj=io.BytesIO(Image(options.file).layer(options.architecture))) as tar:
        tar.extractall(options.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("write")
    verb.add_argument("--version", required=True)
    verb.add_argument("--epoch", type=int, required=True)
    verb.add_argument("--out", type=Path, required=True)
    verb.add_argument("--notices", type=Path)
    verb.add_argument("programs", nargs="+", metavar="ARCHITECTURE=PROGRAM")
    verb.set_defaults(run=write)
    verb = verbs.add_parser("check")
    verb.add_argument("file", type=Path)
    verb.set_defaults(run=check)
    verb = verbs.add_parser("unpack")
    verb.add_argument("file", type=Path)
    verb.add_argument("architecture")
    verb.add_argument("folder", type=Path)
    verb.set_defaults(run=unpack)
    options = parser.parse_args()
    try:
        options.run(options)
    except (OSError, KeyError, ValueError, EOFError, tarfile.TarError) as error:
        sys.exit(f"dist-image.py: {error}")


if __name__ == "__main__":
    main()
