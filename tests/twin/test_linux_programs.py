"""`twin linux` with programs that people run, and with programs that spin."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from linux_kernel import let_others_in, linux, needs_kernel, shell

from iopatterns.twin import linux as twin_linux
from iopatterns.twin.traces import parquet

pytestmark = [pytest.mark.slow, needs_kernel]


@dataclass(frozen=True)
class Program:
    """A program of the table in docs/linux.md.

    Attributes:
        name: Its name there.
        needs: Its executables; the script has their paths as variables of the shell.
        script: What the guest runs.
        output: A text in the output of the script.
    """

    name: str
    needs: Sequence[str]
    script: str
    output: str


POSTGRESQL = """
"$initdb" -D data -A trust -U postgres > /dev/null 2> initdb.log || { cat initdb.log; exit 1; }
"$pg_ctl" -D data -w -l log -o '-k /mnt/tmp -c listen_addresses=' start > /dev/null || { cat log; exit 1; }
"$pgbench" -h /mnt/tmp -U postgres -i -q postgres 2>&1
"$pgbench" -h /mnt/tmp -U postgres -c 4 -t 50 postgres 2>&1
"$pg_ctl" -D data -m fast stop
"""
SQLITE = """
{
    echo 'create table t (id integer primary key, value text);'
    for i in $(seq 200); do echo "insert into t (value) values (hex(randomblob(50)));"; done
    echo "select count(*) || ' rows' from t;"
} | "$sqlite3" database
"""
ROCKSDB = """
"$db_bench" --db=$PWD/data --benchmarks=fillrandom,overwrite,readrandom,stats --num=5000 --value_size=400 \
    --write_buffer_size=1000000 --threads=2 --wal_bytes_per_sync=65536 2>&1
"""
LMDB = """
for i in $(seq 2000); do echo "key$i"; echo "value$i of some length"; done | "$mdb_load" -T -n data
"$mdb_stat" -n data
"""
MARIADB = """
share=$(dirname "$(dirname "$(readlink -f "$mariadbd_binary")")")/share/mysql
common="--no-defaults --datadir=$PWD/data --lc-messages-dir=$share/english --character-sets-dir=$share/charsets"
common="$common --pid-file=/mnt/tmp/pid --aria-log-dir-path=$PWD/data"
common="$common --innodb-buffer-pool-size=32M --loose-innodb-buffer-pool-size-max=64M"
mkdir data data/mysql
{
    echo 'use mysql;'
    cat "$share/mysql_system_tables.sql" "$share/mysql_system_tables_data.sql"
} | "$mariadbd" $common --bootstrap --skip-networking > bootstrap.log 2>&1 || { cat bootstrap.log; exit 1; }
"$mariadbd" $common --skip-networking --skip-grant-tables --socket=/mnt/tmp/socket > server.log 2>&1 &
for i in $(seq 100); do
    "$mariadb" --no-defaults --socket=/mnt/tmp/socket -e 'select 1' > /dev/null 2>&1 && break
    sleep 0.1
done
run() { "$mariadb" --no-defaults --socket=/mnt/tmp/socket "$@" || { cat server.log; exit 1; }; }
run -e 'create database d; create table d.t (id int auto_increment primary key, value varchar(100)) engine=innodb'
for client in 1 2 3 4; do
    for i in $(seq 25); do echo "insert into t (value) values (concat('client $client row ', $i));"; done | run d &
    clients="$clients $!"
done
wait $clients
run -e "select concat(count(*), ' rows') from d.t; shutdown"
wait
"""
GIT = """
"$git" init -q one && cd one
"$git" config user.name user && "$git" config user.email user@localhost
for i in $(seq 50); do mkdir -p d$((i % 7)); seq $i 500 > d$((i % 7))/f$i; done
"$git" add . && "$git" commit -q -m first
cd .. && "$git" clone -q one two && cd two && seq 100 > more && "$git" add more
"$git" -c user.name=user -c user.email=user@localhost commit -q -m second
"$git" gc -q && "$git" fsck && "$git" log --format='%H %s'
"""
TAR = """
"$tar" -cf headers.tar -C /usr/include linux
"$tar" -xf headers.tar && diff -r /usr/include/linux linux && ls -l --time-style=full-iso linux && echo equal
"""
RSYNC = """
"$rsync" -a /usr/include/linux/ copy/ && echo more >> copy/fs.h
"$rsync" -a --itemize-changes /usr/include/linux/ copy/ && diff -r /usr/include/linux copy && echo equal
"""
COMPILER = r"""
for i in 1 2 3; do
    printf '#include <stdio.h>\nint f%s(int x) { return printf("%%d\\n", x * %s); }\n' $i $i > f$i.c
done
printf 'int f1(int), f2(int), f3(int);\nint main(void) { return f1(2) + f2(3) + f3(4) < 0; }\n' > main.c
for each in f1 f2 f3 main; do "$gcc" -O2 -c $each.c & done
wait
"$gcc" -o program main.o f1.o f2.o f3.o && ./program && echo "status $?"
"""
SYSBENCH = """
common="fileio --file-num=4 --file-total-size=16M --rand-seed=1"
"$sysbench" $common prepare > /dev/null
"$sysbench" $common --file-test-mode=rndrw --file-extra-flags=direct --threads=2 --events=500 --time=0 run
"""
PROGRAMS = [
    Program("PostgreSQL, pgbench", ["initdb", "pg_ctl", "pgbench"], POSTGRESQL, "processed: 200/200"),
    Program("SQLite", ["sqlite3"], SQLITE, "200 rows"),
    Program("RocksDB, db_bench", ["db_bench"], ROCKSDB, "readrandom"),
    Program("LMDB", ["mdb_load", "mdb_stat"], LMDB, "Entries: 2000"),
    Program("MariaDB", ["mariadbd", "mariadb"], MARIADB, "100 rows"),
    Program("git", ["git"], GIT, "second"),
    Program("tar", ["tar"], TAR, "equal"),
    Program("rsync", ["rsync"], RSYNC, "equal"),
    Program("gcc", ["gcc"], COMPILER, "status 0"),
    Program("sysbench", ["sysbench"], SYSBENCH, "number of events:              500"),
]


def installed(program: str) -> str:
    """Return the path of a program, or skip the test."""
    servers = [str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")]  # not in the PATH of users
    path = shutil.which(program, path=os.pathsep.join([os.environ["PATH"], twin_linux.GUEST_PATH, *servers]))
    return path or pytest.skip(f"{program} is not installed")


def run_program(program: Program, trace: Path) -> tuple[str, bytes]:
    """Return what a program prints in the guest, and its trace."""
    paths = "".join(f"{name}='{installed(name)}'\n" for name in program.needs)
    if program.name == "MariaDB":
        paths += f"mariadbd_binary='{os.environ.get('MARIADBD', installed('mariadbd'))}'\n"
    done = shell(paths + program.script, "--trace", str(trace), "--overwrite", timeout_s=600)
    assert program.output in done.stdout, done.stdout
    assert "in the future" not in done.stderr
    assert "not repeatable" not in done.stderr
    return done.stdout + done.stderr, trace.read_bytes()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_gives_the_same_bytes_twice(program: Program, tmp_path: Path) -> None:
    first, second = (run_program(program, tmp_path / "trace.parquet") for _ in range(2))
    assert first == second


SPIN = """
#include <stdio.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
struct shared { int ready, done; };
static void wait_for(volatile int* flag) { WAIT }
int main() {  // the child waits for a time, the parent waits in a loop for the child
  volatile struct shared* s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct timespec begin, end, pause = {0, 10000000};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  if (fork() == 0) {
    nanosleep(&pause, 0);
    s->ready = 1;
    _exit(0);
  }
  wait_for(&s->ready);
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%ld\\n", (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
}
"""


def spinning_program(wait: str, folder: Path, optimize: str) -> Path:
    source, program = folder / "spin.c", folder / "spin"
    source.write_text(SPIN.replace("WAIT", wait))
    subprocess.run(["gcc", optimize, "-o", program, source], check=True)
    let_others_in(folder)
    return program


@pytest.mark.parametrize(
    ("wait", "optimize"),
    [
        ("while (!*flag) { }", "-O1"),
        ("while (!*flag) for (volatile int i = 0; i < 20; ++i) { }", "-O0"),
        ("while (!__atomic_compare_exchange_n(flag, &(int){1}, 1, 0, 5, 5)) { }", "-O1"),
    ],
    ids=["reads", "counts to 20 in memory", "locks"],
)
def test_a_program_in_an_endless_loop_gives_way_at_the_same_place(wait: str, optimize: str, tmp_path: Path) -> None:
    program = spinning_program(wait, tmp_path, optimize)
    first, second = (linux("--fs", "none", "--", str(program)) for _ in range(2))
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)
    assert 10_000_000 <= int(first.stdout) < 18_000_000  # up to two ticks of 4 ms later
    assert "a program in an endless loop gave way" in first.stderr
    assert "not repeatable" not in first.stderr


def test_a_loop_that_counts_gives_way_and_marks_the_run(tmp_path: Path) -> None:
    wait = "static volatile long turns; while (!*flag) ++turns;"
    trace = tmp_path / "trace.parquet"
    program = spinning_program(wait, tmp_path, "-O1")
    done = linux("--trace", str(trace), "--", "sh", "-c", f"{program}; echo x > a; sync", timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert "this run is not repeatable" in done.stderr
    recorded_on = parquet.read_recorded_drive(trace)
    assert recorded_on is not None
    assert not recorded_on.repeatable


def test_system_calls_and_page_faults_take_the_given_time(tmp_path: Path) -> None:
    source, program = tmp_path / "work.c", tmp_path / "work"
    source.write_text(
        """
        #include <stdio.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        static long now() {
          struct timespec t;
          clock_gettime(CLOCK_MONOTONIC, &t);
          return t.tv_sec * 1000000000 + t.tv_nsec;
        }
        int main() {
          char* memory = mmap(0, 4096 * 100, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          now();
          long begin = now();
          for (int i = 0; i < 1000; ++i) syscall(SYS_getppid);
          long called = now();
          for (int i = 0; i < 100; ++i) memory[4096 * i] = 1;
          long faulted = now();
          printf("%ld %ld\\n", called - begin, faulted - called);
        }
        """
    )
    subprocess.run(["gcc", "-O0", "-o", program, source], check=True)
    let_others_in(tmp_path)
    clock_ns = 256  # of a reading of the clock, and its grain
    for call_ns, fault_ns in ((0, 0), (300, 2000)):
        options = ("--fs", "none", "--call-ns", str(call_ns), "--fault-ns", str(fault_ns))
        done = linux(*options, "--", str(program))
        calls_ns, faults_ns = map(int, done.stdout.split())
        assert calls_ns == pytest.approx(1000 * call_ns + clock_ns, abs=clock_ns)
        assert faults_ns == pytest.approx(100 * fault_ns + clock_ns, abs=clock_ns)
        assert ("twin: charged " in done.stderr) == (call_ns > 0)


def test_the_time_stamp_counter_has_the_virtual_time(tmp_path: Path) -> None:
    source, program = tmp_path / "tsc.c", tmp_path / "tsc"
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n#include <x86intrin.h>\nint main() { unsigned id;"
        ' long a = __rdtsc(); usleep(1000000); long b = __rdtscp(&id); printf("%ld %ld\\n", a, b - a); }\n'
    )
    subprocess.run(["gcc", "-o", program, source], check=True)
    let_others_in(tmp_path)
    first, second = (linux("--fs", "none", "--", str(program)).stdout for _ in range(2))
    assert first == second
    assert int(first.split()[1]) == pytest.approx(1e9, rel=0.001)


def test_random_numbers_of_the_cpp_library_are_repeatable(tmp_path: Path) -> None:
    source, program = tmp_path / "random.cc", tmp_path / "random"
    source.write_text(
        '#include <cstdio>\n#include <random>\nint main() { std::printf("%x\\n", std::random_device()()); }\n'
    )
    subprocess.run(["g++", "-o", program, source], check=True)
    let_others_in(tmp_path)
    numbers = [linux("--fs", "none", "--seed", seed, "--", str(program)).stdout for seed in ("1", "1", "2")]
    assert numbers[0] == numbers[1] != numbers[2]


def test_python3_of_an_activated_environment_runs(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    subprocess.run(["python3", "-m", "venv", "--without-pip", folder], check=True)
    environment = {"VIRTUAL_ENV": str(folder), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    asked = "import sys; print(sys.prefix)"
    direct = linux("--", "python3", "-c", asked, environment=environment)
    in_shell = linux("--", "sh", "-c", f"python3 -c '{asked}'", environment=environment)
    assert (direct.stdout, in_shell.stdout) == (f"{folder}\n", f"{folder}\n"), direct.stderr + in_shell.stderr


def test_git_clones_a_repository_of_the_user(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    identity = ("-c", "user.name=user", "-c", "user.email=user@localhost")
    subprocess.run(["git", "-C", tmp_path, *identity, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    done = shell(f"git clone -q {tmp_path} copy && git -C copy log --format=%s")
    assert done.stdout == "one\n"


def test_a_file_of_the_host_is_not_newer_than_the_guests_clock(tmp_path: Path) -> None:
    (tmp_path / "now").write_text("")
    let_others_in(tmp_path)
    mtime = int((tmp_path / "now").stat().st_mtime)
    shown, now = map(int, shell(f"stat -c %Y {tmp_path}/now; date +%s").stdout.split())
    assert shown == mtime < now
