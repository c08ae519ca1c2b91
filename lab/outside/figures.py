"""From what pgbench printed and what the kernel counted to the figures of a round. No files, no processes, no clock."""

import re
from statistics import median

# A server is warm when fewer reads than this share of its transactions reach the device, over so many seconds of progress.
WARM_SHARE = 0.01
WARM_SECONDS = 3


def parse_progress(line):
    """(seconds since pgbench's start, transactions per second) of a line of `pgbench -P`; None of any other line."""
    found = re.match(r"progress: (\d+(?:\.\d+)?) s, (\d+(?:\.\d+)?) tps", line)
    return (float(found.group(1)), float(found.group(2))) if found else None


def count_transactions(told):
    """[(arrived, until, tps)] of pgbench's lines -> [(arrived, transactions since the line before)]."""
    counted, before = [], 0.0
    for arrived, until, tps in told:
        counted.append((arrived, round(tps * (until - before))))
        before = until
    return counted


def add_seconds(streams):
    """What several pgbenches told [[(arrived, until, tps)]], second by second -> [(the last has arrived, transactions of all)]. A second
    that one of them did not tell is none."""
    counted = [count_transactions(told) for told in streams]
    return [(max(arrived for arrived, _ in same), sum(count for _, count in same)) for same in zip(*counted)]


def interpolate(points, at):
    """The value of a growing count [(seconds, count)] at a moment between two readings, by a straight line."""
    before = points[0]
    for point in points:
        if point[0] >= at:
            span = point[0] - before[0]
            return point[1] if span <= 0 else before[1] + (point[1] - before[1]) * (at - before[0]) / span
        before = point
    return before[1]


def find_half(seconds, steady):
    """When the first second ended with half of the steady rate; None: none did."""
    before = 0.0
    for arrived, transactions in seconds:
        if transactions >= steady / 2 * (arrived - before):
            return arrived
        before = arrived
    return None


def count_served(seconds, until):
    """Transactions that had ended by then."""
    total, grown = 0, [(0.0, 0)]
    for arrived, transactions in seconds:
        total += transactions
        grown.append((arrived, total))
    return round(interpolate(grown, until))


def find_warm(seconds, reads):
    """Since when fewer than 1 % of the transactions of any three seconds, to the end, cost the device a read, whoever read; None: the
    last three cost more. `reads` is the count of reads [(seconds, count)]. The moment is in the last second that was not so: the last
    reading of the count by which it had grown by 1 % of that second's even share of transactions."""
    edges = [0.0] + [arrived for arrived, _ in seconds]
    by_second = [
        (transactions, interpolate(reads, end) - interpolate(reads, begin))
        for (_, transactions), begin, end in zip(seconds, edges, edges[1:])
    ]
    cold = None
    for place in range(len(by_second) - WARM_SECONDS + 1):
        window = by_second[place : place + WARM_SECONDS]
        if sum(read for _, read in window) >= WARM_SHARE * sum(served for served, _ in window):
            # Its last second with reads is cold, and not those after it.
            busy = [at for at, (served, read) in enumerate(window) if read >= WARM_SHARE * served]
            cold = place + (busy[-1] if busy else WARM_SECONDS - 1)
    if len(by_second) < WARM_SECONDS or cold is not None and cold >= len(by_second) - 1:
        return None
    if cold is None:
        return 0.0
    begin, end, served = edges[cold], edges[cold + 1], by_second[cold][0]
    few = WARM_SHARE * served / max(end - begin, 0.001)
    for (before, count), (at, more) in reversed(list(zip(reads, reads[1:]))):
        if begin < at <= end and more - count >= max(few * (at - before), 1):
            return at
    return end


def find_least(seconds, beside):
    """The least share of a second's transactions in those of the same second of another round, and which second that is, from 1;
    None without such a second."""
    shares = [(one / other, at) for at, ((_, one), (_, other)) in enumerate(zip(seconds, beside), 1) if other > 0]
    return min(shares, default=None)


def find_ranges(resident):
    """[(first page, pages)] of what is set in a string of bytes, one for each page."""
    return [(found.start(), found.end() - found.start()) for found in re.finditer(b"\x01+", resident)]


def compute_bound(files, page_bytes, reads_per_second, bytes_per_second):
    """The least seconds in which a device of these limits can bring the pages of all files, over every choice of gaps that are read
    over: the larger of reads / rate and bytes / bandwidth. Reads may be of any length."""
    gaps, reads, pages = [], 0, 0
    for resident in files:
        ranges = find_ranges(resident)
        reads += len(ranges)
        pages += sum(length for _, length in ranges)
        gaps += [after[0] - sum(before) for before, after in zip(ranges, ranges[1:])]

    def seconds():
        return max(reads / reads_per_second, pages * page_bytes / bytes_per_second)

    best = seconds()
    for gap in sorted(gaps):
        reads, pages = reads - 1, pages + gap
        best = min(best, seconds())
    return best


def render_median(values, digits=1):
    """The middle of the rounds, with the least and the most; a round without the figure took longer than all others."""
    known = sorted(value for value in values if value is not None)
    if not values or not known:
        return "-"
    missed = len(values) - len(known)
    endless = known + [float("inf")] * missed

    def told(value):
        return f"> {known[-1]:.{digits}f}" if value == float("inf") else f"{value:.{digits}f}"

    return f"{told(median(endless))} ({told(endless[0])} - {told(endless[-1])})"


def render_table(head, rows):
    """Columns as wide as their widest cell, the first to the left, the others to the right."""
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
