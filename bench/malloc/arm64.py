#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Try the allocator on arm64: a guest of four emulated CPUs runs the tests' own programs.

The guest has Debian's kernel for arm64, which restarts sequences; the emulation of single processes
does not. `--package linux-image-arm64-16k` takes another kernel, here one with pages of 16 KiB, of
which the backports suite has packages. The guest's CPUs are emulated in the order of x86-64, so
that what weaker order would show is not tested. Nothing is installed into this machine: the
kernel's package is fetched into build/arm64.

Needs: apt-get install qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross, a source list of
the distribution, Rust for aarch64-unknown-linux-gnu (rustup target add), and some ten minutes.
Exit: 0 every program passed, 1 one did not, 2 something is missing.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from soak import HERE, ROOT, TESTS, Missing, need

BUILD = ROOT / "build/arm64"
TARGET = "aarch64-unknown-linux-gnu"
COMPILER = "aarch64-linux-gnu-gcc"
SYSROOT = pathlib.Path("/usr/aarch64-linux-gnu/lib")
LIBRARIES = ("ld-linux-aarch64.so.1", "libc.so.6", "libgcc_s.so.1", "libm.so.6")
WAYS = ("", "rseq=0", "check=1", "profile=64k", "guard=3", "numa=2", "huge=always",
        "cpu_cache=16k,keep=0,keep_percent=0,start_percent=0,huge_floor=0")
FEW = ("", "rseq=0", "check=1")
# Program, arguments, ways of working.
PROGRAMS = (
    ("entry_points", "", WAYS),
    ("sequences", "100000 1 1", WAYS),
    ("sequences", "30000 4 2", WAYS),
    ("threads", "10", WAYS),
    ("threads", "20", ("background=1",)),
    ("marked", "", ("check=1", "check=1,numa=2")),
    ("fork_handlers", "", FEW),
    ("vfork", "40", FEW),
    ("refusals", "17", ("", "rseq=0")),
    ("oom", "", ("", "rseq=0")),
    ("realloc", "", FEW[:2]),
    ("seccomp", "2", FEW[:2]),
    ("seccomp", "2 syscall", FEW[:1]),
    ("seccomp", "2 instruction late", FEW[:1]),
    ("limits", "hard", ("limit=64m", "limit=64m,rseq=0")),
    ("background", "1", ("background=1",)),
    ("last_thread", "", ("", "background=1")),
    ("holes", "trim runs 48 always", FEW[:2]),
)
LIMIT_S = 1800


def fetch_kernel(package):
    """The kernel of a package for arm64, without changing what this machine installs."""
    root = BUILD / package
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if kernels:
        return kernels[-1]
    for folder in ("lists/partial", "cache/archives/partial", "deb"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    options = ["-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64",
               "-o", f"Dir::State::Lists={BUILD}/lists", "-o", f"Dir::Cache={BUILD}/cache",
               "-o", "APT::Sandbox::User=root"]
    subprocess.run(["apt-get", *options, "update"], check=True, stdout=subprocess.DEVNULL)
    shown = subprocess.run(["apt-cache", *options, "depends", package],
                           check=True, capture_output=True, text=True).stdout
    name = re.search(r"Depends: (linux-image-[^\s:]+)", shown)
    if not name:
        raise Missing(f"{package}, in the source list,")
    subprocess.run(["apt-get", *options, "download", name[1]], check=True, cwd=BUILD / "deb",
                   stdout=subprocess.DEVNULL)
    archive = next((BUILD / "deb").glob(f"{name[1]}_*.deb"))
    subprocess.run(["dpkg-deb", "-x", str(archive), str(root)], check=True)
    return next((root / "boot").glob("vmlinuz-*"))


def build_library():
    """The library for arm64, built."""
    variable = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"
    done = subprocess.run([need("cargo"), "build", "--locked", "-q", "--profile", "malloc", "-p",
                           "ample-malloc", "--target", TARGET], cwd=ROOT, check=False,
                          env=dict(os.environ, **{variable: need(COMPILER)}))
    if done.returncode != 0:
        raise Missing(f"Rust for {TARGET}")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / TARGET / "malloc/libample_malloc.so"


def compile_program(source, binary, *flags):
    """A program for arm64, as the tests compile it for x86-64."""
    subprocess.run([COMPILER, "-O1", "-fno-builtin", "-rdynamic", "-pthread", "-w",
                    "-Wl,--unresolved-symbols=ignore-all", *flags, "-o", str(binary),
                    str(source)], check=True)


def make_archive(folder, tests):
    """The guest's files as an initramfs."""
    root = folder / "root"
    (root / "lib").mkdir(parents=True)
    (root / "bin").mkdir()
    for name in LIBRARIES:
        if not (SYSROOT / name).exists():
            raise Missing(str(SYSROOT / name))
        shutil.copy(SYSROOT / name, root / "lib" / name)
    shutil.copy(build_library(), root / "lib/libample_malloc.so")
    compile_program(HERE / "guest/init.c", root / "init", "-static")
    for name in dict.fromkeys(name for name, _, _ in tests):
        compile_program(TESTS / f"{name}.c", root / "bin" / name)
    lines = [f"{way}|/bin/{name} {arguments}".rstrip() for name, arguments, way in tests]
    (root / "tests").write_text("\n".join(lines) + "\n")
    archive = folder / "initramfs"
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(archive, "wb") as file:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(),
                       stdout=file, check=True)
    return archive


def run_guest(kernel, archive, cpus, count):
    """Number -> (status, seconds, output) of each test, and the console's text."""
    command = ["qemu-system-aarch64", "-machine", "virt,gic-version=3", "-cpu", "max",
               "-smp", str(cpus),
               "-accel", "tcg,thread=multi", "-m", "3072", "-display", "none", "-no-reboot",
               "-serial", "stdio", "-monitor", "none", "-nic", "none", "-kernel", str(kernel),
               "-initrd", str(archive), "-append", "console=ttyAMA0 quiet panic=-1"]
    results, text = {}, []
    with subprocess.Popen(["timeout", str(LIMIT_S), *command], stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, errors="replace") as guest:
        for line in guest.stdout:
            text.append(line)
            match = re.search(r"TEST (\d+) (\d+) (\d+) ?(.*)", line)
            if match:
                number, status, seconds = (int(word) for word in match.groups()[:3])
                results[number] = (status, seconds, match[4].strip())
                print(f"\r{len(results)} of {count}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results, "".join(text)


def report(tests, results, text, arguments, kernel):
    """Prints how each test went; 1 if one failed."""
    if "TEST end" not in text:
        print(text[-3000:])
    rows, failed = [], 0
    for number, (name, words, way) in enumerate(tests):
        status, seconds, line = results.get(number, (-1, 0, "did not run"))
        passed = status == 0 and ('"rseq"' if way == "stats=json" else "ok") in line
        failed += not passed
        rows.append([f"{name} {words}".strip(), way,
                     "passes" if passed else f"FAILED ({status}): {line[-300:]}",
                     seconds])
        print(f"{rows[-1][2]:8} {rows[-1][0]} {way}")
    print(f"{len(tests) - failed} of {len(tests)} pass on {arguments.cpus} CPUs, {kernel.name}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"kernel": kernel.name, "rows": rows}))
    return int(failed > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="*",
                        help=f"of {', '.join(dict.fromkeys(p[0] for p in PROGRAMS))} [all]")
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--package", default="linux-image-cloud-arm64",
                        help="of the kernel [%(default)s]")
    parser.add_argument("--json", help="write the table there")
    arguments = parser.parse_args()
    wanted = arguments.programs or [name for name, _, _ in PROGRAMS]
    unknown = set(wanted) - {name for name, _, _ in PROGRAMS}
    if unknown:
        parser.error(f"there is no program {unknown.pop()}")
    tests = [(name, words, way) for name, words, ways in PROGRAMS if name in wanted
             for way in ways]
    # Statistics say whether the caches work by restartable sequences.
    tests.append(("threads", "1", "stats=json"))
    try:
        for program in ("qemu-system-aarch64", "cpio", "dpkg-deb"):
            need(program)
        kernel = fetch_kernel(arguments.package)
        with tempfile.TemporaryDirectory(prefix="ample-arm64-") as folder:
            archive = make_archive(pathlib.Path(folder), tests)
            results, text = run_guest(kernel, archive, arguments.cpus, len(tests))
    except Missing as missing:
        print(f"arm64.py: {missing} is missing; {__doc__.split('Needs: ')[1].split('.')[0]}",
              file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"arm64.py: {' '.join(error.cmd)} failed: {(error.stderr or '').strip()}",
              file=sys.stderr)
        return 2
    return report(tests, results, text, arguments, kernel)


if __name__ == "__main__":
    sys.exit(main())
