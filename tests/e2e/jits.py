# SPDX-License-Identifier: Apache-2.0
"""Recordings of programs that generate code."""
import signal

import lib

# Before its tables are there, only 512 stacks of a process are deferred per second (BH_DEFERRED_PER_SECOND_MAX). Those beyond that are cut.
FREQUENCY = 499


def record_two_parts(case, program, seconds, **kwargs):
    """A recording of a program that does something else from SIGUSR1 on, which it gets after this CPU time; then it gets as much again."""
    process = case.start("-p", program.pid, seconds=2 * seconds * lib.STRETCH, freq=FREQUENCY, **kwargs)
    for target, number in ((program.process, signal.SIGUSR1), (process, signal.SIGINT)):
        case.give_cpu_time(seconds, process)
        target.send_signal(number)
    return case.finish(process)
