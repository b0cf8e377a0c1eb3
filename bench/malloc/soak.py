#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run real programs under libample_malloc and say which went wrong.

Each case is a command, or a small server with a load on a loopback port or socket, and passes if
everything ends as it does without the library. A program that is not installed is left out and
said so. Exit: 0 all passed, 1 a case failed, 2 the library is missing.
"""

import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TESTS = ROOT / "crates/malloc/tests/programs"
PYTHON_TESTS = ("test_dict test_list test_set test_bytes test_unicode test_json test_re test_gc "
                "test_weakref test_threading test_thread test_queue test_fork1 test_subprocess "
                "test_os test_mmap test_ctypes test_zlib test_bz2 test_lzma "
                "test_pickle test_decimal test_memoryview test_array test_io").split()
PYTHON_TESTS_DIR = pathlib.Path("/usr/lib/python3.11/test/test_dict.py")
JAVA = """
import java.util.*;
public class Soak {
    public static void main(String[] a) throws Exception {
        Thread[] threads = new Thread[8];
        for (int t = 0; t < 8; t++) {
            threads[t] = new Thread(() -> {
                Map<Integer, byte[]> map = new HashMap<>();
                for (int i = 0; i < 200000; i++) map.put(i % 5000, new byte[i % 3000]);
            });
            threads[t].start();
        }
        for (Thread t : threads) t.join();
        java.nio.ByteBuffer[] direct = new java.nio.ByteBuffer[200];
        for (int i = 0; i < 4000; i++) direct[i % 200] = java.nio.ByteBuffer.allocateDirect(i * 50);
        System.out.println("ok");
    }
}
"""
NODE = ("const z=require('zlib');let m=new Map();"
        "for(let i=0;i<300000;i++){m.set(i%9999,Buffer.alloc(i%5000,1))}"
        "for(let i=0;i<50;i++){z.gunzipSync(z.gzipSync(Buffer.alloc(1e6,i)))}console.log('ok')")
SQL = ("create table t(a integer primary key, b text, c blob);"
       "with recursive n(i) as (select 1 union all select i+1 from n where i<200000) "
       "insert into t select i, hex(randomblob(i%60)), zeroblob(i%300) from n;"
       "create index x on t(b); delete from t where a%3=0; vacuum;"
       "pragma integrity_check; select count(*) from t;")


class Missing(Exception):
    """A program that a case needs is not installed."""


def need(name):
    path = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:" + os.environ.get("PATH", ""))
    if path is None:
        raise Missing(name)
    return path


def run(command, env, expect=None, limit_s=900, cwd=None):
    done = subprocess.run(command, env=env, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=limit_s, check=False)
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: ...{text[-600:]}")
    if expect is not None and expect not in text:
        raise RuntimeError(f"no \"{expect}\" in the output: ...{text[-600:]}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port), 20)
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server did not start")


def stop(server):
    server.terminate()
    if server.wait(timeout=60) not in (0, -15):
        raise RuntimeError(f"the server ended with {server.returncode}")


def c_program(name, folder):
    binary = folder / name
    subprocess.run([need("cc"), "-O1", "-fno-builtin", "-rdynamic", "-pthread", "-w", "-o",
                    str(binary), str(TESTS / f"{name}.c")], check=True)
    return str(binary)


def sequences(env, folder):
    binary = c_program("sequences", folder)
    run([binary, "10000000", "1", "11"], env, "ok")
    run([binary, "2000000", "4", "12"], env, "ok")


def threads(env, folder):
    run([c_program("threads", folder), "500"], env, "ok")


def refusals(env, folder):
    run([c_program("refusals", folder), "1"], env, "ok")


def forks(env, folder):
    binary = folder / "forks"
    subprocess.run([need("cc"), "-O2", "-pthread", "-fno-builtin", "-o", str(binary),
                    str(HERE / "programs/forks.c")], check=True)
    run([str(binary), "300"], env, '"hung": 0, "failed": 0', limit_s=3600)


def shells(env, _folder):
    run(["/bin/bash", "-c", "for i in $(seq 400); do x=$(echo $i | sed s/1/2/ | cat); done; "
         "echo ok"], env, "ok")


def gcc(env, folder):
    for source in sorted((HERE / "programs").glob("*.c")) + sorted(TESTS.glob("*.c")):
        for level in ("-O0", "-O2", "-O3"):
            # What only the allocator has is looked for when a program starts.
            run([need("gcc"), level, "-g", "-w", "-pthread", "-Wl,--unresolved-symbols=ignore-all",
                 "-o", str(folder / "built"), str(source)], env)


def python(env, _folder):
    if not PYTHON_TESTS_DIR.exists():
        raise Missing("libpython3.11-testsuite")
    run(["/usr/bin/python3", "-m", "test", "-w", "--timeout", "600", *PYTHON_TESTS],
        dict(env, PYTHONMALLOC="malloc"), limit_s=3000)


def sqlite(env, folder):
    run([need("sqlite3"), str(folder / "soak.db"), SQL], env, "ok\n133334")


def node(env, _folder):
    run([need("node"), "-e", NODE], env, "ok")


def java(env, folder):
    (folder / "Soak.java").write_text(JAVA)
    run([need("java"), "-Xmx512m", str(folder / "Soak.java")], env, "ok")


def memcached(env, _folder):
    port = free_port()
    server = subprocess.Popen([need("memcached"), "-u", "nobody", "-l", "127.0.0.1", "-p",
                               str(port), "-m", "128", "-t", "4"], env=env)
    try:
        links = [wait_for(port) for _ in range(16)]
        for index in range(60000):
            data = bytes([97 + index % 26]) * (index * 7 % 4000 + 1)
            link = links[index % 16]
            link.sendall(b"set k%d 0 0 %d\r\n%s\r\nget k%d\r\n"
                         % (index % 9000, len(data), data, index % 9000))
            answer = b""
            while not answer.endswith(b"END\r\n"):
                answer += link.recv(65536)
            if data not in answer:
                raise RuntimeError("memcached gave back other data than it was given")
    finally:
        stop(server)


def nginx(env, folder):
    port = free_port()
    (folder / "www").mkdir()
    (folder / "www/file").write_bytes(b"y" * 300000)
    (folder / "nginx.conf").write_text(
        f"worker_processes 2; pid {folder}/pid; error_log {folder}/error.log; daemon off;\n"
        "events { worker_connections 256; }\n"
        f"http {{ access_log off; gzip on; gzip_types *; client_body_temp_path {folder}; "
        f"proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; "
        f"scgi_temp_path {folder};\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}/www; }} }}\n")
    os.chmod(folder, 0o755)
    server = subprocess.Popen([need("nginx"), "-c", str(folder / "nginx.conf")], env=env,
                              stderr=subprocess.DEVNULL)
    try:
        wait_for(port).close()
        for index in range(3000):
            link = socket.create_connection(("127.0.0.1", port), 20)
            coding = b"Accept-Encoding: gzip\r\n" if index % 2 else b""
            link.sendall(b"GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + coding
                         + b"\r\n")
            total = 0
            while part := link.recv(1 << 20):
                total += len(part)
            link.close()
            if total < (300 if index % 2 else 300000):
                raise RuntimeError(f"nginx sent {total} bytes")
    finally:
        stop(server)


def redis(env, folder):
    path = str(folder / "redis.sock")
    server = subprocess.Popen([need("redis-server"), "--port", "0", "--unixsocket", path, "--dir",
                               str(folder), "--appendonly", "yes", "--save", "1 100"],
                              env=env, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if os.path.exists(path):
                break
            time.sleep(0.05)
        # Writes with snapshots (forks) and rewrites of the log going on.
        plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        run([need("redis-benchmark"), "-s", path, "-q", "-P", "8", "-n", "60000", "-r", "50000",
             "-t", "set,get,incr,lpush,rpop,sadd,hset,zadd,mset", "-d", "400"], plain)
        for command in (["bgrewriteaof"], ["debug", "reload"], ["flushall"]):
            run([need("redis-cli"), "-s", path, *command], plain)
    finally:
        stop(server)


CASES = [sequences, threads, refusals, forks, shells, gcc, sqlite, redis, memcached, nginx, node,
         java, python]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", help="default: all")
    parser.add_argument("--library", default=str(ROOT / "target/malloc/libample_malloc.so"))
    parser.add_argument("--options", default="", help="AMPLE_MALLOC for the runs")
    arguments = parser.parse_args()
    # A shell starts what it does not wait for with interrupts ignored; tests of them would fail.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not os.path.exists(arguments.library):
        print(f"{arguments.library} is missing: cargo build --profile malloc -p ample-malloc",
              file=sys.stderr)
        return 2
    names = {case.__name__: case for case in CASES}
    unknown = [name for name in arguments.cases if name not in names]
    if unknown:
        print(f"no case {unknown[0]}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    env = dict(os.environ, LD_PRELOAD=os.path.abspath(arguments.library),
               AMPLE_MALLOC=arguments.options)
    failed = 0
    for name in arguments.cases or names:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ample-soak-") as folder:
            try:
                names[name](env, pathlib.Path(folder))
                verdict = "ok"
            except Missing as missing:
                verdict = f"left out: {missing} is not installed"
            except (RuntimeError, subprocess.SubprocessError, OSError) as error:
                verdict = f"FAILED: {error}"
                failed += 1
        print(f"{name:<10} {time.monotonic() - started:7.1f} s  {verdict}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
