#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run foreign programs under glibc's malloc and under libample_malloc, and compare what they do.

A case passes if it gives the same output under both, in every run. A program that is not installed
is left out and said so. Exit: 0 all passed, 1 a case failed, 2 the library is missing.
"""

import argparse
import hashlib
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import arm64
import soak
from soak import HERE, ROOT, TESTS, Missing, free_port, need, wait_for

PAGE = ("<html><body><h1 id=h>x</h1><canvas id=c width=600 height=300></canvas><script>"
        "let s=0,m=new Map();for(let i=0;i<300000;i++){m.set(i%5000,'v'.repeat(i%90));s+=i%7}"
        "let g=c.getContext('2d');for(let i=0;i<600;i++){g.fillStyle=`hsl(${i},90%,50%)`;"
        "g.fillRect(i,i%300,9,9)}h.textContent=s</script></body></html>")
SOURCES = sorted(TESTS.glob("*.c")) + sorted((HERE / "programs").glob("*.c"))
PYTHON = ("import threading,zlib,json,multiprocessing as m\n"
          "def f(i): return zlib.crc32(json.dumps([j*i for j in range(40000)]).encode())\n"
          "t=[threading.Thread(target=f,args=(i,)) for i in range(8)]\n"
          "[x.start() for x in t];[x.join() for x in t]\n"
          "print(m.Pool(4).map(f,range(40)))")
PERL = ("my %h; $h{$_ % 9973} .= 'y' x ($_ % 50) for 1..600000; my $s = 0; $s += length for values "
        "%h; my @a = sort { $a <=> $b } map { $_ * 7919 % 100003 } 1..200000; "
        "print \"$s $a[999]\\n\"")
GO = """package main
// #include <stdlib.h>
// #include <string.h>
import "C"
import ("fmt"; "sync")
func main() {
	var all sync.WaitGroup
	for i := 0; i < 64; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for j := 1; j < 20000; j++ {
				p := C.malloc(C.size_t(j * 37 % 60000 + 1)); C.memset(p, 1, 1); C.free(p)
			}
		}(i)
	}
	all.Wait(); fmt.Println("ok")
}
"""
BLAS = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int,
                 double, double *, int);
static double trace(int n) {
    double *a = malloc(n * n * 8), *b = malloc(n * n * 8), *c = calloc(n * n, 8), sum = 0;
    for (int i = 0; i < n * n; i++) a[i] = i % 13, b[i] = i % 7;
    cblas_dgemm(101, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);
    for (int i = 0; i < n; i++) sum += c[i * n + i];
    free(a); free(b); free(c);
    return sum;
}
int main(void) {
    for (int round = 0; round < 30; round++) {
        double before = trace(300);
        int status = 1;
        pid_t child = fork();
        if (child == 0) _exit(trace(300) != before);
        if (waitpid(child, &status, 0) != child || status) return 1;
        if (trace(200 + round) < 0) return 2;
    }
    puts("ok");
}
"""
WAITING = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void *wait_for_ever(void *a) {
    void *p[50];
    for (int i = 0; i < 50; i++) p[i] = malloc(100 + i * 64);
    for (int i = 0; i < 50; i += 2) free(p[i]);
    pause();
    return a;
}
int main(void) {
    pthread_attr_t small;
    pthread_t name;
    struct timespec from, to;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 17);
    for (int i = 0; i < 4000; i++) if (pthread_create(&name, &small, wait_for_ever, 0)) return 1;
    sleep(2);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    sleep(10);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double ms = (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6;
    fprintf(stderr, "%.1f ms in 10 s\\n", ms);
    puts(ms < 20 ? "ok" : "not idle");
    _exit(0);
}
"""


def output(command, env, cwd=None, limit_s=600, user=None):
    """What a command prints. Raises unless it ends with 0."""
    done = subprocess.run(command, env=env, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=limit_s, check=False, user=user,
                          group=pwd.getpwnam(user).pw_gid if user else None,
                          extra_groups=[] if user else None)
    complaint = done.stderr.decode(errors="replace")
    if done.returncode != 0 or "ample-malloc:" in complaint:
        raise RuntimeError(f"exit {done.returncode}: ...{complaint[-600:]}")
    return done.stdout.decode(errors="replace")


def built(compiler, source, folder, *flags):
    name = "main.go" if compiler == "go" else "main.c"
    (folder / name).write_text(source)
    command = [need(compiler), "build"] if compiler == "go" else [need(compiler), "-O1", "-pthread"]
    subprocess.run([*command, "-o", "main", name, *flags], cwd=folder, check=True,
                   env=dict(os.environ, GO111MODULE="off", CGO_ENABLED="1"))
    return str(folder / "main")


def page(folder):
    (folder / "page.html").write_text(PAGE)
    return f"file://{folder}/page.html"


def firefox(env, folder):
    program = need("firefox-esr")
    output([program, "--headless", "--profile", str(folder), "--screenshot", f"{folder}/page.png",
            "--window-size=800,600", page(folder)], dict(env, HOME=str(folder)))
    return hashlib.sha256((folder / "page.png").read_bytes()).hexdigest()


def chromium_run(env, folder, *flags, user=None):
    text = output([need("chromium"), "--headless", "--disable-gpu",
                   f"--user-data-dir={folder}/data", *flags, "--dump-dom", page(folder)],
                  dict(env, HOME=str(folder)), user=user, cwd=folder)
    return re.sub(r"\s+", " ", text)


def chromium(env, folder):
    return chromium_run(env, folder, "--no-sandbox")


def chromium_sandboxed(env, folder):
    if os.getuid() != 0:
        return chromium_run(env, folder)
    shutil.chown(folder, "nobody")
    return chromium_run(env, folder, user="nobody")


def libreoffice(env, folder):
    (folder / "text.txt").write_text("\n".join(f"line {i} " + "word " * (i % 30)
                                               for i in range(3000)))
    output([need("soffice"), "--headless", f"-env:UserInstallation=file://{folder}/profile",
            "--convert-to", "pdf", "text.txt"], dict(env, HOME=str(folder)), cwd=folder)
    return str((folder / "text.pdf").read_bytes().count(b"/Type/Page"))


def postgres(env, folder):
    need("pgbench")
    versions = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    if not versions:
        raise Missing("postgres")
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    port = str(free_port())

    def step(program, *arguments):
        path = versions[-1] / program
        return output([str(path), *arguments], env, cwd=folder, user=user)
    step("initdb", "-D", "data")
    step("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", f"-p {port} -k {folder}", "start")
    try:
        where = ("-h", str(folder), "-p", port, "postgres")
        step("pgbench", "-i", "-q", "-s", "4", *where)
        step("pgbench", "-c", "8", "-j", "2", "-t", "500", "-n", *where)
        return step("psql", "-At", "-h", str(folder), "-p", port, "-c", "select count(*), "
                    "(select sum(abalance) from pgbench_accounts) = (select sum(delta) from "
                    "pgbench_history) from pgbench_history", "postgres")
    finally:
        step("pg_ctl", "-D", "data", "-w", "-m", "fast", "stop")


def nginx_reload(env, folder):
    """Two clients while the server takes its configuration anew ten times."""
    port = free_port()
    (folder / "file").write_bytes(b"y" * 300000)
    temporary = "".join(f"{name}_temp_path {folder}; " for name in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"worker_processes 2; pid {folder}/pid; error_log {folder}/error.log; daemon off;\n"
        f"events {{ }} http {{ access_log off; gzip on; gzip_types *; {temporary}\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n")
    os.chmod(folder, 0o755)
    wrong, ended = [], threading.Event()

    def client():
        while not ended.is_set():
            with wait_for(port) as link:
                link.sendall(b"GET /file HTTP/1.0\r\n\r\n")
                total = 0
                while part := link.recv(1 << 20):
                    total += len(part)
            if total < 300000:
                wrong.append(total)
    server = subprocess.Popen([need("nginx"), "-c", f"{folder}/nginx.conf"], env=env,
                              stderr=subprocess.DEVNULL)
    clients = [threading.Thread(target=client) for _ in range(2)]
    try:
        wait_for(port).close()
        for thread in clients:
            thread.start()
        for _ in range(10):
            time.sleep(0.3)
            server.send_signal(signal.SIGHUP)
    finally:
        ended.set()
        for thread in clients:
            thread.join()
        soak.stop(server)
    log = (folder / "error.log").read_text()
    if "signal" in log and "exited on signal" in log:
        raise RuntimeError(f"a worker ended: ...{log[-300:]}")
    return f"{len(wrong)} answers cut"


def node(env, _folder):
    return output([need("node"), "-e", soak.NODE], env)


def java(env, folder):
    (folder / "Soak.java").write_text(soak.JAVA)
    return output([need("java"), "-Xmx512m", "Soak.java"], env, cwd=folder)


def python(env, _folder):
    return output([need("python3"), "-c", PYTHON], dict(env, PYTHONMALLOC="malloc"))


def python_seeded(env, _folder):
    """Work of many kinds, by five seeds."""
    program = str(HERE / "programs/seeded.py")
    return " ".join(output([need("python3"), program, str(seed)],
                           dict(env, PYTHONMALLOC="malloc")).strip() for seed in range(1, 6))


def perl(env, _folder):
    return output([need("perl"), "-e", PERL], dict(env, PERL_HASH_SEED="0"))


def git(env, folder):
    """Commits, a clone, a repack with threads, and a check of all objects."""
    name = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    script = ("mkdir a; cd a; git init -q; for i in $(seq 60); do seq $i $((i * 50)) >f$((i % 7)); "
              f"git add -A; git {' '.join(name)} commit -qm $i --date=@0; done; "
              "git repack -adfq --threads=4; git fsck --strict; cd ..; git clone -q a b; "
              "git -C b log --stat --format=%T | cksum; git -C b blame f3 | wc -l")
    need("git")
    return output(["/bin/bash", "-ec", script], dict(env, HOME=str(folder)), cwd=folder)


def objects(compiler, env, folder, *flags):
    """The bytes that a compiler makes of this project's C programs."""
    digest = hashlib.sha256()
    for source in SOURCES:
        target = folder / "object.o"
        output([need(compiler), "-c", "-O2", "-w", "-pthread", *flags, "-o", str(target),
                str(source)], env)
        digest.update(target.read_bytes())
    return digest.hexdigest()


def gcc(env, folder):
    return objects("gcc", env, folder, "-g")


def clang(env, folder):
    return objects("clang", env, folder, "-g")


def go_cgo(env, folder):
    return output([built("go", GO, folder)], env)


def openblas_fork(env, folder):
    found = sorted(pathlib.Path("/usr/lib").glob("*/openblas-pthread/libopenblas.so*"))
    if not found:
        raise Missing("libopenblas0-pthread")
    where = f"-Wl,-rpath,{found[0].parent}"
    return output([built("cc", BLAS, folder, str(found[0]), where)],
                  dict(env, OPENBLAS_NUM_THREADS="4"))


def idle_threads(env, folder):
    return output([built("cc", WAITING, folder)], env)


def soname(library):
    """The name that the linker writes into what is linked with a library."""
    shown = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    found = re.search(r"soname: \[(.*)\]", shown.stdout)
    return found[1] if found else os.path.basename(library)


def setuid(env, folder):
    """Linked with the library, as it would be preloaded by /etc/ld.so.preload; options are from a
    stranger and may do nothing."""
    if os.getuid() != 0:
        raise Missing("root")
    library = env.get("LD_PRELOAD")
    source = ('#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) { '
              'free(malloc(100)); printf("%d %d\\n", geteuid(), getuid()); }')
    linked = []
    if library:
        # Programs ask for a library by its soname, whatever the file is called.
        (folder / soname(library)).symlink_to(library)
        linked = [library, f"-Wl,-rpath,{folder}"]
    program = built("cc", source, folder, "-fno-builtin", *linked)
    os.chmod(program, 0o4755)
    os.chmod(folder, 0o777)
    stranger = dict(env, AMPLE_MALLOC=f"stats=1,stats_to={folder}/written")
    stranger.pop("LD_PRELOAD", None)
    shown = output([program], stranger, user="nobody")
    return shown + ("written" if (folder / "written").exists() else "")


def aarch64(env, folder):
    """The tests' own programs, in a process that QEMU emulates."""
    emulator, library = need("qemu-aarch64"), arm64.build_library()
    preload = ["-E", f"LD_PRELOAD={library}"] if "LD_PRELOAD" in env else []
    plain = {key: value for key, value in env.items() if key != "LD_PRELOAD"}
    shown = ""
    for name, *arguments in (("threads", "4"), ("fork_handlers",),
                             ("sequences", "20000", "4", "2")):
        binary = str(folder / name)
        arm64.compile_program(TESTS / f"{name}.c", binary)
        shown += output([emulator, "-L", "/usr/aarch64-linux-gnu", *preload, binary, *arguments],
                        plain).strip()[-40:]
    return "ok" if shown.count("ok") == 3 else shown


CASES = [firefox, chromium, chromium_sandboxed, libreoffice, postgres, nginx_reload, node, java,
         python, python_seeded, perl, git, gcc, clang, go_cgo, openblas_fork,
         idle_threads, setuid, aarch64]


def compare(case, library, options, runs):
    """How a case went: under glibc once, then under the library."""
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    ours = dict(plain, LD_PRELOAD=str(library), AMPLE_MALLOC=options)

    def once(env):
        with tempfile.TemporaryDirectory(prefix="ample-foreign-", dir="/var/tmp",
                                         ignore_cleanup_errors=True) as folder:
            return case(env, pathlib.Path(folder))
    try:
        expected = once(plain)
    except Missing as missing:
        return "left out", f"{missing} is not installed"
    except (RuntimeError, subprocess.SubprocessError, OSError) as error:
        return "left out", f"fails under glibc too: {error}"
    for run in range(runs):
        try:
            got = once(ours)
        except (RuntimeError, subprocess.SubprocessError, OSError) as error:
            return "FAILED", f"run {run + 1} of {runs}: {error}"
        if got != expected:
            return "FAILED", f"run {run + 1} of {runs}: {got[:200]!r} and not {expected[:200]!r}"
    return "same", f"{runs} of {runs}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = {case.__name__: case for case in CASES}
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(names)} [all]")
    parser.add_argument("--library", default=str(ROOT / "target/malloc/libample_malloc.so"))
    parser.add_argument("--options", default="", help="AMPLE_MALLOC for the runs")
    parser.add_argument("--runs", type=int, default=3, help="under the library [3]")
    parser.add_argument("--json", help="write the table there")
    arguments = parser.parse_args()
    if not os.path.exists(arguments.library):
        print(f"{arguments.library} is missing: cargo build --profile malloc -p ample-malloc",
              file=sys.stderr)
        return 2
    unknown = [name for name in arguments.cases if name not in names]
    if unknown:
        print(f"no case {unknown[0]}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    rows = []
    with tempfile.TemporaryDirectory(prefix="ample-library-", dir="/var/tmp") as folder:
        # Where any user may read it.
        os.chmod(folder, 0o755)
        library = shutil.copy(arguments.library, folder)
        for name in arguments.cases or names:
            started = time.monotonic()
            verdict, detail = compare(names[name], library, arguments.options, arguments.runs)
            rows.append([name, verdict, detail])
            print(f"{name:<18} {time.monotonic() - started:7.1f} s  {verdict}: {detail}",
                  flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(verdict == "FAILED" for _, verdict, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
