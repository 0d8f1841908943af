"""Runs a campaign's jobs in worker processes, so that a crash or a hang costs one case.

A job is a JSON object. In a worker, `cases(job, options)` of the campaign's module yields (id, run). The worker reports that the
case begins, runs it and sends its record, a JSON object with at least "class". A case may take `limit` seconds of processor time,
or eight times that in wall-clock time, because the machine may be busy. If the worker dies or is late, the parent records `crash`
or `timeout` for the case, and a new worker continues behind it. A worker that uses much memory ends after its job.
Tested by tests/campaign/campaign_test.py.
"""

import importlib
import json
import os
import queue
import resource
import select
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGE = 3 << 20         # KiB of resident memory after which a worker ends
START = 60              # seconds of processor time that a worker may take for its imports
WAITING = 8             # a case may take so many times its limit in wall-clock time


class Worker:
    def __init__(self, campaign, options):
        self.errors = tempfile.TemporaryFile()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
            [str(ROOT / "tests"), str(ROOT / "bindings" / "python"), os.environ.get("PYTHONPATH", "")])}
        environment.setdefault("TENON_CACHE", "off")
        environment["OMP_NUM_THREADS"] = str(options["threads"])
        self.process = subprocess.Popen([sys.executable, "-m", "campaign.pool", campaign, json.dumps(options)], cwd=ROOT,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment)
        self.rest = b""

    def send(self, job):
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def used(self):
        """Seconds of processor time that this process has used, with its threads."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def line(self, limit):
        """The next message; None at the end of the process. Raises TimeoutError if no message comes."""
        deadline, used = time.monotonic() + WAITING * limit, self.used()
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], 1)[0]:
                if time.monotonic() > deadline or self.used() - used > limit:
                    raise TimeoutError
                continue
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self.rest += more
        text, self.rest = self.rest.split(b"\n", 1)
        return json.loads(text)

    def end(self):
        self.process.kill()
        self.process.wait()

    def last_words(self):
        self.errors.seek(0)
        return self.errors.read()[-2000:].decode(errors="replace")


def run(campaign, jobs, options, sink):
    """Runs all jobs and passes each record to `sink(record)` as it comes."""
    todo, lock = queue.Queue(), threading.Lock()
    for job in jobs:
        todo.put(job)

    def put(job, record):
        with lock:
            sink({**record, "job": job["key"]})

    def loop():
        worker = None
        while True:
            try:
                job = todo.get_nowait()
            except queue.Empty:
                break
            if time.time() > options.get("end", float("inf")):
                break
            skip = 0
            while job is not None:
                if worker is None:
                    worker = Worker(campaign, options)
                begun, late, message = None, False, None
                try:
                    worker.send({**job, "skip": skip})
                    while True:
                        message = worker.line(options["limit"] + (START if begun is None else 0))
                        if message is None or "end" in message:
                            break
                        if "begin" in message:
                            begun = message
                            skip += 1
                        else:
                            put(job, message)
                            begun = None
                except TimeoutError:
                    late, message = True, None
                except BrokenPipeError:
                    message = None
                if message is not None:
                    job = None
                    if message["end"] == "large":
                        worker.end()
                        worker = None
                    continue
                worker.end()
                code = worker.process.returncode
                words = worker.last_words()
                worker = None
                if begun is None:     # the worker died between two cases, so the job cannot continue
                    put(job, {"id": job["key"], "class": "timeout" if late else "crash", "repro": "", "detail":
                              f"no case had begun (exit status {code})", "stderr": words})
                    job = None
                    continue
                put(job, {**begun["begin"], "class": "timeout" if late else "crash",
                          "detail": "no answer" if late else f"exit status {code}", "stderr": words})
        if worker:
            worker.end()

    threads = [threading.Thread(target=loop) for _ in range(options["workers"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def work(campaign, options):
    """A worker. It reads jobs from stdin and writes messages to stdout; output of libraries goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    module = importlib.import_module(f"campaign.{campaign}")
    for line in sys.stdin:
        job = json.loads(line)
        n = 0
        for about, run_case in module.cases(job, options):
            n += 1
            if n <= job["skip"]:
                continue
            say({"begin": about})
            begin = time.monotonic()
            try:
                record = run_case()
            except Exception:
                record = {"class": "tool", "detail": traceback.format_exc()[-1500:]}
            say({**about, **record, "seconds": round(time.monotonic() - begin, 3)})
        large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > LARGE
        say({"end": "large" if large else "ok"})


if __name__ == "__main__":
    work(sys.argv[1], json.loads(sys.argv[2]))
