#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs every command of the book and of the README, in the order of each page.

Usage: book-run.py [--quick] AMPLE [PAGE...]

A block of commands is fenced as `sh`. Each page has a folder of its own, in which the folders of
the tree are there under their names, and before each block the files that other machines would
have made (see FILES: a guest of 1 GB stands for the reader's server). What takes long is made
small, by the rules of SMALLER and no other; what is long by its nature, needs another machine or
changes this one says so in a comment on the line before:

    <!-- not run: boots guests; kernel/Makefile does -->
                                    and what takes these steps, or "nothing does"
    <!-- needs: root -->            or bpf, or qemu (the emulator of programs, with plugins):
                                    run where this machine and program have it
    <!-- slow -->                   more than ten seconds of a processor: --quick only reads it;
                                    with what it needs: <!-- needs: root slow -->

Commands that are not run are read all the same: every `ample` command has to have the subcommand
and the options that are written, every target of make and every script has to be there.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
TIMEOUT_S = 300
NEEDS = ("root", "bpf", "qemu")
NEEDED = re.compile(r"needs:|slow$").match
# What a page may use without having made it: recordings of guests that lie in the tree.
COURSE = "kernel/tests/courses/stock-1g-web-1"
FILES = {
    "host.snap": f"{COURSE}.third.snap",
    "before.snap": f"{COURSE}.start.snap",
    "after.snap": f"{COURSE}.end.snap",
    "host.trace.zst": f"{COURSE}.trace.zst",
    "snaps/web-1.snap": f"{COURSE}.start.snap",
    "snaps/web-2.snap": f"{COURSE}.third.snap",
    "snaps/web-3.snap": f"{COURSE}.end.snap",
}


# What takes the steps of a block that is not run.
DOES = re.compile(r"; (\S+) (?:does|reads what (?:it|they) prints?)\b")


class Book(Exception):
    """A page that breaks the rules, or a command that failed."""


def smaller(words):
    """The words of an `ample` command, with what takes long made small."""
    words = list(words)
    command = words[0] if words else ""

    def put(option, value=None, over=None):
        if option in words:
            if over:
                words[words.index(option) + 1] = over
        else:
            end = words.index("--") if "--" in words else len(words)
            words[end:end] = [option] if value is None else [option, value]

    if command == "sim" and len(words) > 1:
        put("--quick")
    elif command == "reproduce" and "--list" not in words:
        put("--quick")
    elif command == "whatif":
        put("--hours", "0.05", over="0.05")
        if "--record" in words:
            put("--record", over="10s")
    elif command == "watch":
        put("--for", "2s", over="2s")
    elif command == "agent" and "--listen" not in words:
        put("--once")
    elif command == "replay":
        put("--samples", "8")
    elif command == "record":
        put("--limit", "200000")
    elif words[:2] == ["fleet", "simulate"]:
        put("--servers", "0..1")
    return words


def blocks(page):
    """The fenced blocks of a page: line, language, comment before it, text."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        lines = file.read().splitlines()
    found, start, comment = [], None, ""
    for number, line in enumerate(lines):
        fence = re.match(r"\s*```(.*)$", line)
        if fence and start is None:
            start, language = number, fence[1].strip()
            before = next((own for own in reversed(lines[:number]) if own.strip()), "")
            comment = re.match(r"\s*<!-- (.*) -->$", before)
        elif fence:
            text = "\n".join(lines[start + 1 : number])
            found.append((start + 1, language, comment[1] if comment else "", text))
            start = None
    return found


def known_options(ample, words, cache={}):
    """Options and subcommands that the help of an `ample` command names."""
    key = tuple(words)
    if key not in cache:
        done = subprocess.run([ample, *words, "--help"], capture_output=True, text=True)
        cache[key] = done.stdout if done.returncode == 0 else None
    return cache[key]


def split(command):
    """Words as the shell has them; where it is half a command, what lies between spaces."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def taken(comment):
    """Fails where a block that is not run does not say what takes its steps."""
    does = DOES.search(comment)
    if not does:
        raise Book("say what takes these steps: '; PATH does' or '; nothing does'")
    if does[1] != "nothing" and not os.path.exists(os.path.join(ROOT, does[1])):
        raise Book(f"there is no {does[1]} that takes these steps")


def read(ample, text):
    """Fails where a command that is not run names what is not there."""
    targets = set()
    for name in ("Makefile", "kernel/Makefile"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            targets |= set(re.findall(r"^([a-z-]+):", file.read(), re.M))
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*", "", line)
        for command in re.split(r"&&|\|\|?|;", line):
            words = split(command)
            while words and re.match(r"[A-Z_]+=|sudo$", words[0]):
                words.pop(0)
            if not words:
                continue
            program = words.pop(0)
            if program == "make":
                for word in words:
                    if re.fullmatch(r"[a-z-]+", word) and word not in targets:
                        raise Book(f"make has no target {word}")
            elif program == "ample":
                read_ample(ample, words)
            elif re.match(r"(scripts|hw|kernel|bench|crates)/", program):
                if not os.path.exists(os.path.join(ROOT, program)):
                    raise Book(f"there is no {program}")


def read_ample(ample, words):
    # What follows is for the allocator's own command.
    if words[:1] == ["malloc"]:
        return
    if "--" in words:
        words = words[: words.index("--")]
    path = []
    for word in words:
        text = known_options(ample, path)
        commands = re.search(r"^Commands:\n((?:  .*\n|\n)+)", text or "", re.M)
        names = re.findall(r"^  ([a-z-]+)", commands[1], re.M) if commands else []
        if word not in names:
            break
        path.append(word)
    help_text = known_options(ample, path)
    if help_text is None or (words and not path and not words[0].startswith("-")):
        raise Book(f"there is no command: ample {' '.join(words[:2])}")
    for word in words:
        option = word.split("=")[0]
        if re.fullmatch(r"-[a-zA-Z]|--[a-z-]+", option):
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_text):
                raise Book(f"ample {' '.join(path)} has no option {option}")


def tools_of(ample):
    """A folder with the programs of a build under the names that they have when installed. `ample`
    makes its arguments small and runs the real one, which lies beside the allocator's library."""
    built = os.path.dirname(ample)
    # The same disk as the build, so that a link will do.
    tools = tempfile.mkdtemp(prefix="ample-book.", dir=built)
    real = os.path.join(tools, "real")
    os.mkdir(real)
    os.link(ample, os.path.join(real, "ample"))
    places = [built, os.path.join(built, "deps"), os.path.join(built, "../malloc")]
    for name, aliases in {
        "ample-malloc": ["ample-malloc"],
        "libample_malloc.so": ["libample_malloc.so", "libample_malloc.so.0"],
    }.items():
        found = [os.path.join(place, name) for place in places]
        found = [path for path in found if os.path.exists(path)]
        for alias in aliases if found else []:
            os.link(found[0], os.path.join(real, alias))
    if os.path.exists(os.path.join(real, "ample-malloc")):
        os.symlink("real/ample-malloc", os.path.join(tools, "ample-malloc"))
    path = os.path.join(tools, "ample")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f"#!/bin/bash\nset -uo pipefail\n"
            f'mapfile -d "" words < <({shlex.quote(sys.executable)} '
            f'{shlex.quote(os.path.realpath(__file__))} --smaller "$@")\n'
            # What serves until it is ended serves for some seconds.
            f'limit=()\n[[ " $* " == " agent "*"--listen "* ]] && limit=(timeout -s INT 5)\n'
            f'"${{limit[@]}}" {shlex.quote(os.path.join(real, "ample"))} "${{words[@]}}"\n'
            f"status=$?\n[[ $status == 124 && ${{#limit[@]}} -gt 0 ]] && status=0\n"
            # 1 is an answer of these: a threshold is crossed, an advice is given.
            f'[[ $status == 1 && " $* " =~ (" --fail-if "|^" doctor ") ]] && status=0\n'
            f"exit $status\n"
        )
    os.chmod(path, 0o755)
    return tools


def run_block(folder, tools, text):
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": os.path.join(tools, "real"),
        "HOME": folder,
        "LC_ALL": "C.UTF-8",
        "TMPDIR": folder,
    }
    with tempfile.TemporaryFile() as said:
        # In a session of its own, so that all that it started ends with it.
        running = subprocess.Popen(
            ["bash", "-euxo", "pipefail", "-c", text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            code = running.wait(TIMEOUT_S)
            ended = f"exit code {code}"
        except subprocess.TimeoutExpired:
            code, ended = None, f"not done after {TIMEOUT_S} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        if code != 0:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").splitlines()
            raise Book(f"{ended}\n    " + "\n    ".join(lines[-12:]))


def lay_out(folder):
    """The folders of the tree."""
    for name in os.listdir(ROOT):
        if os.path.isdir(os.path.join(ROOT, name)) and not name.startswith("."):
            if name not in ("target", "build", "report"):
                os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))


def lay_files(folder):
    """The files that a page may use, as they are at first."""
    for name, source in FILES.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, source), os.path.join(folder, name))


def allowed(ample):
    """What this machine and this program have of NEEDS."""
    done = subprocess.run([ample, "doctor", "--json"], capture_output=True, text=True)
    checks = {own["name"]: own["state"] for own in json.loads(done.stdout)["checks"]}
    names = {"root": "page flags", "bpf": "BPF reader"}
    here = {need for need, name in names.items() if checks.get(name) == "ok"}
    emulator = shutil.which("qemu-x86_64")
    told = emulator and subprocess.run([emulator, "--help"], capture_output=True, text=True)
    return here | {"qemu"} if told and "-plugin" in told.stdout else here


def do_page(page, ample, tools, here, quick, counts):
    """Runs one page; tells problems and adds to the counts of ends."""
    folder = tempfile.mkdtemp(prefix="ample-book.")
    lay_out(folder)
    try:
        for line, language, comment, text in blocks(page):
            started, end = time.monotonic(), "run"
            try:
                if not language:
                    raise Book("a block without a language: sh, text, toml, rust, …")
                if language != "sh":
                    continue
                if comment.startswith("not run:"):
                    end = "read"
                    taken(comment)
                    read(ample, text)
                    continue
                needs = set(comment.removeprefix("needs:").split()) if NEEDED(comment) else set()
                slow = "slow" in needs
                needs -= {"slow"}
                if needs - set(NEEDS):
                    raise Book(f"needs what nobody knows: {' '.join(needs)}")
                if needs - here or (slow and quick):
                    end = "left out" if needs - here else "slow"
                    read(ample, text)
                    continue
                lay_files(folder)
                run_block(folder, tools, text)
            except Book as problem:
                end = "failed"
                print(f"{page}:{line}: {problem}")
            finally:
                counts[end] = counts.get(end, 0) + (language == "sh" or end == "failed")
                took = time.monotonic() - started
                if took > 5:
                    print(f"{page}:{line}: took {took:.0f} s", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if sys.argv[1:2] == ["--smaller"]:
        sys.stdout.write("".join(word + "\0" for word in smaller(sys.argv[2:])))
        return 0
    quick = sys.argv[1:2] == ["--quick"]
    given = sys.argv[1 + quick :]
    if not given:
        print(__doc__, file=sys.stderr)
        return 2
    ample = os.path.realpath(given[0])
    pages = given[1:] or ["README.md"] + sorted(
        f"docs/{name}" for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")
    )
    here, counts = allowed(ample), {}
    tools = tools_of(ample)
    try:
        for page in pages:
            do_page(page, ample, tools, here, quick, counts)
    finally:
        shutil.rmtree(tools)
    ran, failed = counts.get("run", 0), counts.get("failed", 0)
    print(f"blocks of commands: {ran} run, {counts.get('read', 0)} only read", end="")
    print(f", {counts.get('slow', 0)} slow ones" if quick else "", end="")
    print(f", {counts.get('left out', 0)} left out for want of {set(NEEDS) - here or 'nothing'}")
    spent = os.times()
    print(f"processor time: {spent.children_user + spent.children_system:.0f} s")
    print(f"test result: {'FAILED' if failed else 'ok'}. {ran} passed; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
