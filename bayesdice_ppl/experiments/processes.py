"""Run jobs in processes of one thread each, and give results as they are done.

Two processes of one thread are faster at many small fits than one of two threads. A process that
ends abruptly, for example because memory is short, takes down its pool. The jobs that were left are
then given to a new pool.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from bayesdice_ppl.errors import SettingsError

MOST_LOSSES = 3
"""The most pools in a row that may be lost without a finished job."""

_MOST_WORKERS = 61
"""The most processes that Windows can wait for."""

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run_in_processes[T](jobs: Sequence[Callable[[], T]], workers: int) -> Iterator[T]:
    """Run jobs, and give their results as they are done.

    Parameters
    ----------
    jobs
        What to run; each can be sent to another process, and run again if its process is lost.
    workers
        Number of processes, at least 1.

    Yields
    ------
    T
        Results, in no order.

    Raises
    ------
    SettingsError
        Processes end abruptly, one after another.
    """
    left = list(jobs)
    losses = 0
    with _one_thread_each():
        while left:
            try:
                for job, result in _pool(left, workers):
                    left.remove(job)
                    losses = 0
                    yield result
            except BrokenProcessPool as cause:
                losses += 1
                if losses == MOST_LOSSES:
                    raise SettingsError(
                        f"workers: a process ended abruptly {losses} times in a row, perhaps for "
                        "lack of memory. Use fewer workers, or fewer worlds at once."
                    ) from cause


def _pool[T](jobs: Sequence[Callable[[], T]], workers: int) -> Iterator[tuple[Callable[[], T], T]]:
    """Run jobs in one pool, and give each with its result."""
    # A fresh interpreter each: a fork of one that has run JAX may hang.
    pool = ProcessPoolExecutor(
        min(workers, len(jobs), _MOST_WORKERS),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_follow_parent,
    )
    others = set(multiprocessing.active_children())
    mine: set[Any] = set()
    try:
        of_future: dict[Future[T], Callable[[], T]] = {pool.submit(_call, job): job for job in jobs}
        mine = set(multiprocessing.active_children()) - others
        running = set(of_future)
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield of_future[future], future.result()
    except BaseException:
        # After an error or an interruption, jobs that are running are stopped.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in mine:
            process.terminate()
        raise
    pool.shutdown()


def _call[T](job: Callable[[], T]) -> T:
    return job()


def _follow_parent() -> None:
    """Leave interruptions to the parent, and end when the parent has ended."""
    # An interruption reaches all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the parent, which may be killed without notice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes started in the block use one core each, and no accelerator."""
    before = dict(os.environ)
    try:
        for name in _ONE_THREAD:
            os.environ[name] = "1"
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ.setdefault("MPLBACKEND", "Agg")
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)
