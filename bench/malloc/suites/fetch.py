# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sources of the distribution's packages, through apt-get and into a folder of ours."""

import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

APT = pathlib.Path("/etc/apt")


class Missing(Exception):
    """Something that a suite needs is not there; the message says what to do."""


def need(program, package):
    path = shutil.which(program)
    if path is None:
        raise Missing(f"{program} is missing: apt-get install {package}")
    return path


def codename():
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=")[1].strip('"')
    raise Missing("/etc/os-release names no VERSION_CODENAME: sources of which release?")


def source_entries():
    """The machine's own entries for its release, asking for sources: one-line and deb822 ones."""
    lines, stanzas, release = [], [], codename()
    files = [APT / "sources.list", *sorted(APT.glob("sources.list.d/*"))]
    for file in [file for file in files if file.is_file()]:
        text = file.read_text()
        if file.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                suites = re.search(r"(?m)^Suites:(.*)$", stanza)
                if suites and release in re.split(r"[\s-]+", suites[1]):
                    kept = [line for line in stanza.splitlines() if not line.startswith("#")]
                    stanzas.append(re.sub(r"(?m)^Types:.*$", "Types: deb-src", "\n".join(kept)))
        else:
            for line in text.splitlines():
                words = re.sub(r"\[.*?\]", "", line).split()
                if len(words) > 3 and words[0] == "deb" and words[2].split("-")[0] == release:
                    lines.append(line.replace("deb", "deb-src", 1))
    return "\n".join(lines) + "\n", "\n\n".join(stanzas) + "\n"


def apt_options(base):
    """Options that keep apt-get to sources, lists and archives in a folder of its own."""
    apt = base / "apt"
    for folder in ("parts", "lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    one_line, deb822 = source_entries()
    (apt / "parts/own.list").write_text(one_line)
    (apt / "parts/own.sources").write_text(deb822)
    return ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={apt}/parts",
            "-o", f"Dir::State::lists={apt}/lists", "-o", f"Dir::Cache={apt}/cache",
            "-o", "APT::Sandbox::User=root"]


def source(base, package):
    """The unpacked upstream source of a package; fetched if it is not there yet."""
    unpacked = base / package / "source"
    if unpacked.exists():
        return unpacked
    folder = base / package
    folder.mkdir(parents=True, exist_ok=True)
    options = apt_options(base)
    for command in (["update", "-qq"], ["source", "-qq", "--download-only", package]):
        done = subprocess.run([need("apt-get", "apt"), *options, *command], cwd=folder,
                              stdout=sys.stderr, check=False)
        if done.returncode != 0:
            raise Missing(f"apt-get {command[0]} failed; it needs the network and a list of the "
                          f"distribution's packages in {APT}")
    archive = max(folder.glob(f"{package}_*.orig.tar.*[xz2]"), default=None)
    if archive is None:
        raise Missing(f"apt-get brought no {package}_*.orig.tar to {folder}")
    partial = folder / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(partial)
    inner = list(partial.iterdir())
    (inner[0] if len(inner) == 1 else partial).rename(unpacked)
    return unpacked
