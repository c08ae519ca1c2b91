#!/usr/bin/env python3
"""Throughput curves whose truth is known, and disturbances upon them: README.md beside this."""
import argparse
import csv
import dataclasses
import math
import pathlib
import random
import statistics

import noise
from noise import log_uniform
from warming import UNLIMITED, Server, Warming, count_one_client

PAGES_PER_SCALE = 1913.6  # of pgbench_accounts and its index
TABLE_AND_INDEX = [(1639.68 / PAGES_PER_SCALE, 1), (273.92 / PAGES_PER_SCALE, 1)]
ONE_PART = [(1, 1)]
SELECT, UPDATE, TPCB, SCRIPT = "select only", "simple update", "TPC-B (sort of)", None
WARM, NEVER, DEGRADING, PERIODIC = "warm", "never_warm", "degrading", "periodic"
ACCEPT = {WARM: "steady", NEVER: "not_reached", DEGRADING: "degrading", PERIODIC: "periodic"}


@dataclasses.dataclass
class Run:
    """A run without disturbances."""
    server: Server
    level: list  # transactions of each second
    missed: list  # pages that a transaction read from the device, in each second
    pages: int
    script: str
    truth: str
    final: float = 0.0  # what the level tends to
    accept: str = ""
    flat: bool = None  # True: nothing of the curve tells a warm server from one that is cold for long; False: its level alone does
    swing: list = None  # factors that belong to the server and are not warming: dips of checkpoints, connections, drift
    exact: list = None  # instead of level: one by one
    share: float = 0.0  # of the final level at the end
    worse_from: float = 0.0  # the second from which a degrading run is compared with what was before
    decidable: bool = True


# What servers there are ------------------------------------------------------------------------------------------------------------

def draw_clients(rng):
    return max(1, round(log_uniform(rng, 0.8, 64.5)))


def draw_server(rng, script, clients=None, limited=None):
    """A server within 50 to 100,000 transactions per second when warm."""
    while True:
        count = clients or draw_clients(rng)
        cores = rng.choice([2, 2, 4, 8, 16, 32])
        if script == SELECT:
            hit = log_uniform(rng, 30e-6, 300e-6) * max(1, count / cores)
        elif script in (UPDATE, TPCB):
            hit = log_uniform(rng, 0.4e-3, 20e-3) * max(1, count / 16)
        else:
            hit = log_uniform(rng, 40e-6, 10e-3) * max(1, count / cores)
        miss, reads = rng.choice([
            (log_uniform(rng, 80e-6, 250e-6), log_uniform(rng, 2e4, 5e5)),  # local flash
            (log_uniform(rng, 0.4e-3, 2e-3), log_uniform(rng, 500, 16e3)),  # a cloud volume
            (log_uniform(rng, 4e-3, 15e-3), log_uniform(rng, 80, 400))])  # a rotating disk
        server = Server(count, hit, miss, reads if limited else UNLIMITED)
        if 50 <= server.final() <= 100_000:
            return server


def draw_seconds(rng):
    return round(log_uniform(rng, 60, 3600))


def choose_pages(told, wanted):
    """As many as wanted, or of a whole scale of pgbench; None when that is too few or too many."""
    pages = round(PAGES_PER_SCALE * max(1, round(wanted / PAGES_PER_SCALE))) if told else round(wanted)
    return pages if 500 <= pages <= 60e6 else None


def warm_through(rng, told, server, parts, until, script, lowest, highest, floor=0.0):
    """A run from cold whose share of the final level at the end is within [lowest, highest]; None when these chances give none.

    The run is so long that `until` is reached at its end, or before by the factor that is the second of a pair.
    """
    share, spare = until
    warming = Warming(server, parts, floor)
    if warming.rates[0] > 0.7 * warming.end_rate:
        return None
    seconds, time = draw_seconds(rng), warming.time_of(share)
    pages = choose_pages(told, seconds / spare / time) if time else None
    if not pages:
        return None
    level, missed = warming.seconds(pages, seconds)
    run = Run(server, level, missed, pages, script, WARM, warming.end_rate)
    lasts = seconds - first_second(level, 0.95 * run.final)
    return run if lowest <= level[-1] / run.final <= highest and (highest < 1 or lasts >= 20) else None


def warm_from_the_start(rng, told, script, seconds=None):
    server, seconds = draw_server(rng, script), seconds or draw_seconds(rng)
    pages = choose_pages(told, min(6e6, max(2000, server.final() * seconds / log_uniform(rng, 0.5, 500))))
    run = Run(server, [server.final()] * seconds, [0.0] * seconds, pages, script, WARM, server.final())
    # With known pages: had it begun cold, then that would have been seen, as each page was asked for several times; or no
    # disk is as fast.
    run.flat = told and server.final() * seconds < 3 * pages and not (script == SELECT and like_memory(server, run.final))
    return run


def like_memory(server, rate):
    return server.clients / rate < 1e-3 * max(1, server.clients / 4)


def like_disk(server, rate):
    return server.clients / rate > 2e-3 * max(1, server.clients / 4)


def any_builtin(rng):
    return rng.choice([SELECT, SELECT, UPDATE, TPCB])


def spare(rng):
    """Run time over the time to warm: the warm tail is 25 % to 90 % of the run."""
    return 1 / (1 - rng.uniform(0.25, 0.9))


# The shapes ------------------------------------------------------------------------------------------------------------------------

def warm(rng, told):
    return warm_from_the_start(rng, told, any_builtin(rng))


def one_client(rng, told):
    run = warm_through(rng, told, draw_server(rng, SCRIPT, clients=1), ONE_PART, (0.97, spare(rng)), SCRIPT, 0.96, 1)
    if run and run.pages <= 250_000:
        run.exact = count_one_client(rng, run.server, run.pages, len(run.level))
        return run
    return None


def device_limit(rng, told):
    server = draw_server(rng, SCRIPT, limited=True)
    return warm_through(rng, told, server, ONE_PART, (0.97, spare(rng)), SCRIPT, 0.96, 1)


def table_and_index(rng, told):
    script = any_builtin(rng)
    return warm_through(rng, told, draw_server(rng, script, limited=rng.random() < 0.5), TABLE_AND_INDEX, (0.97, spare(rng)),
                        script, 0.96, 1)


def draw_hot_parts(rng):
    hot_share, hot_access = rng.choice([0.1, log_uniform(rng, 0.01, 0.2)]), rng.choice([0.9, 0.99, rng.uniform(0.8, 0.99)])
    return [(hot_share, hot_access), (1 - hot_share, 1 - hot_access)]


def hot_done(rng, told):
    server = draw_server(rng, SCRIPT, limited=rng.random() < 0.5)
    return warm_through(rng, told, server, draw_hot_parts(rng), (0.97, spare(rng)), SCRIPT, 0.96, 1)


def hot_only(rng, told):
    """The hot part is warm for half of the run at least, the rest hardly."""
    server, parts = draw_server(rng, SCRIPT, limited=rng.random() < 0.7), draw_hot_parts(rng)
    plateau = server.rate(parts[1][1]) / server.final()
    if not 0.08 <= plateau <= 0.65:
        return None
    share = plateau * (1 + log_uniform(rng, 0.005, 0.4))
    run = warm_through(rng, told, server, parts, (share, 1), SCRIPT, plateau, 0.85)
    if not run or run.missed[len(run.missed) // 2] > 1.02 * parts[1][1]:
        return None
    run.truth = NEVER
    return run


def huge(rng, told):
    """So large that what is read in the run changes nothing."""
    script = rng.choice([SELECT, SELECT, SELECT, TPCB])
    server, seconds = draw_server(rng, script, limited=rng.random() < 0.7), draw_seconds(rng)
    warming = Warming(server, TABLE_AND_INDEX[:1])
    pages = choose_pages(told, warming.rates[0] * seconds / log_uniform(rng, 0.0005, 0.03))
    if not pages or not 0.005 <= warming.rates[0] / server.final() <= 0.4 or warming.rates[0] < 10:
        return None
    level, missed = warming.seconds(pages, seconds)
    return Run(server, level, missed, pages, script, NEVER, server.final(),
               flat=not (told and script == SELECT and like_disk(server, level[-1])))


def draw_rise(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return SCRIPT, draw_server(rng, SCRIPT, clients=1), ONE_PART
    if kind == 1:
        return SCRIPT, draw_server(rng, SCRIPT, limited=True), ONE_PART
    if kind == 2:
        script = any_builtin(rng)
        return script, draw_server(rng, script, limited=rng.random() < 0.5), TABLE_AND_INDEX
    return SCRIPT, draw_server(rng, SCRIPT, limited=rng.random() < 0.5), draw_hot_parts(rng)


def stopped(rng, told, lowest, highest):
    script, server, parts = draw_rise(rng)
    run = warm_through(rng, told, server, parts, (rng.uniform(lowest, highest), 1), script, lowest, highest)
    if run and run.level[0] < 0.8 * run.level[-1]:
        run.truth = NEVER
        return run
    return None


def stopped_early(rng, told):
    return stopped(rng, told, 0.15, 0.7)


def stopped_late(rng, told):
    return stopped(rng, told, 0.7, 0.895)


def warmer_beside(rng, told):
    """Slow while something else reads all into memory, then warm at once or within seconds."""
    script = rng.choice([SELECT, SCRIPT])
    server, seconds = draw_server(rng, script, limited=True), draw_seconds(rng)
    warming = Warming(server, ONE_PART)
    jump, width = rng.uniform(0.15, 0.7) * seconds, rng.choice([0.5, rng.uniform(0.5, 8)])
    slowed = rng.uniform(0.5, 0.95)
    pages = choose_pages(told, jump / (warming.time_of(0.97) or math.inf) * log_uniform(rng, 1.2, 20))
    if not pages or warming.rates[0] > 0.5 * warming.end_rate or seconds - jump - width < 20:
        return None
    level, missed = warming.seconds(pages, seconds)
    level = [rate * slowed for rate in level]
    if level[int(jump)] > 0.6 * server.final():
        return None
    for second in range(seconds):
        there = min(1, max(0, (second + 0.5 - jump) / width))
        level[second] += there * (server.final() - level[second])
        missed[second] *= 1 - there
    return Run(server, level, missed, pages, script, WARM, server.final())


def along_a_warmer(rng, told):
    """Something else reads all pages beside the load, in a row or the often used ones first, or has read them before it began."""
    script, kind = rng.choice([SELECT, UPDATE, SCRIPT]), rng.choice(["in a row", "in a row", "hot first", "before"])
    if kind == "before":
        run = warm_from_the_start(rng, told, script)
        # What the log cannot tell is whether it is warm: the level itself is there.
        run.flat = False
        return run
    server, seconds = draw_server(rng, script, limited=rng.random() < 0.7), draw_seconds(rng)
    lasts, slowed = rng.uniform(0.05, 0.6) * seconds, rng.uniform(0.4, 0.95)
    if seconds - lasts < max(20, 0.25 * seconds):
        return None
    pages = choose_pages(told, server.final() * seconds * log_uniform(rng, 0.01, 3))
    if not pages or server.rate(1) > 0.5 * server.final():
        return None
    done, level, missed = 0.0, [], []
    for second in range(seconds):
        read = min(1, (second + 0.5) / lasts)
        missing = (1 - (read if kind == "in a row" else read ** 0.25)) * math.exp(-done / pages)
        rate = server.rate(missing) * (slowed if read < 1 else 1)
        done += rate
        level.append(rate)
        missed.append(missing)
    return Run(server, level, missed, pages, script, WARM, server.final(), flat=False)


def checkpoints(rng, told):
    """Dips that come back: at once down, and up again at once or in a line."""
    run = None
    while not run:
        run = warm_from_the_start(rng, told, rng.choice([UPDATE, TPCB]), round(log_uniform(rng, 120, 3600)))
        if rng.random() < 0.3:
            script = rng.choice([UPDATE, TPCB])
            run = warm_through(rng, told, draw_server(rng, script), TABLE_AND_INDEX, (0.97, rng.uniform(4, 10)), script, 0.96, 1)
    seconds, run.flat = len(run.level), False
    period = log_uniform(rng, 15, max(20, min(300, seconds / 3)))
    depth, lasts, in_a_line = log_uniform(rng, 0.04, 0.65), rng.uniform(0.1, 0.5) * period, rng.random() < 0.5
    run.swing = [1.0] * seconds
    at, dips = rng.uniform(0, period), 0
    while at < seconds:
        for second in range(int(at), min(seconds, math.ceil(at + lasts))):
            left = 1 - (second - at) / lasts if in_a_line else 1
            run.swing[second] = min(run.swing[second], 1 - depth * min(1, max(0, left)))
        at += period * (1 + rng.gauss(0, 0.02))
        dips += 1
    deep = depth >= 0.3 and dips >= 4 and lasts >= 3
    run.truth, run.accept = (PERIODIC, "periodic") if deep else (PERIODIC, "steady|periodic") if depth >= 0.15 else (WARM, "steady|periodic")
    return run


def degrading(rng, told):
    """Warm, and then slower: little by little, or by a step that lasts."""
    run = None
    while not run:
        script = any_builtin(rng)
        if rng.random() < 0.6:
            run = warm_from_the_start(rng, told, script)
        else:
            run = warm_through(rng, told, draw_server(rng, script), TABLE_AND_INDEX, (0.97, rng.uniform(4, 20)), script, 0.96, 1)
    seconds, lost = len(run.level), rng.uniform(0.2, 0.6)
    if rng.random() < 0.5:
        begin = rng.uniform(0.3, 0.5) * seconds if run.level[0] < 0.9 * run.final else rng.uniform(0, 0.4) * seconds
        run.swing = [1 - lost * max(0, (second - begin) / (seconds - begin)) for second in range(seconds)]
        run.worse_from = (begin + seconds) / 2
    else:
        begin = run.worse_from = min(rng.uniform(0.5, 0.85) * seconds, seconds - 20)
        run.swing = [1 - lost * (second >= begin) for second in range(seconds)]
    run.truth, run.flat = DEGRADING, False
    return run


def connecting(rng, told):
    """The first seconds have only some of the clients."""
    run = warm_from_the_start(rng, told, any_builtin(rng))
    lasts, begins = rng.uniform(1, 8), rng.uniform(0, 0.5)
    run.swing = [min(1, begins + (1 - begins) * second / lasts) for second in range(len(run.level))]
    return run


def beyond_memory(rng, told):
    """What is asked for evenly does not fit: the plateau is as warm as it gets."""
    script = rng.choice([SELECT, SCRIPT])
    server = draw_server(rng, script, limited=rng.random() < 0.5)
    run = warm_through(rng, told, server, ONE_PART, (0.97, 1 / (1 - rng.uniform(0.4, 0.95))), script, 0.96, 1,
                       floor=log_uniform(rng, 0.03, 0.7))
    if not run:
        return None
    # A rest that is merely slow to come would have come if all pages were read again meanwhile.
    tail = first_second(run.level, 0.97 * run.final)
    read = sum(rate * missed for rate, missed in zip(run.level[tail:], run.missed[tail:]))
    if told and read < 1.5 * run.pages:
        run.accept = "steady|not_reached"
    return run


SHAPES = [(warm, 40), (one_client, 40), (device_limit, 40), (table_and_index, 30), (hot_done, 35), (hot_only, 45), (huge, 25),
          (stopped_early, 35), (stopped_late, 40), (warmer_beside, 25), (checkpoints, 35), (degrading, 35), (connecting, 25),
          (beyond_memory, 30)]


# A family of its own, which seeds 1 to 4 do not have.
ALONG = [(along_a_warmer, 1)]


def order_of_shapes(shapes):
    """Every shape as often as its weight of 480 says, all of them mixed from the beginning."""
    places = [((turn + 0.5) / times, number) for number, (_, times) in enumerate(shapes) for turn in range(times)]
    return [shapes[number][0] for _, number in sorted(places)]


# Truth -----------------------------------------------------------------------------------------------------------------------------

def first_second(level, least):
    """From which on the level is never below."""
    first = len(level)
    while first and level[first - 1] >= least:
        first -= 1
    return first


def compare(values, begin, middle):
    """How much higher the logarithm of the mean is from the middle on than from begin to there; as shares of the run."""
    begin, middle = int(begin * len(values)), int(middle * len(values))
    before, after = statistics.fmean(values[begin:max(begin + 1, middle)]), statistics.fmean(values[middle:])
    return math.log(max(1e-9, after)) - math.log(max(1e-9, before))


def is_seen(rng, values, disturb, begin, middle):
    """Whether somebody who knew the disturbance's statistics would see that difference.

    Five standard deviations: who takes half of them for a rise errs in 1 % of the flat curves and in 1 % of these.
    """
    by_chance = [compare(disturb(rng, len(values)), begin, middle) for _ in range(16)]
    return abs(compare(values, begin, middle)) > 5 * statistics.stdev(by_chance)


def settle(rng, run, told, disturb):
    """Whether the curve can be decided, and what is accepted of it."""
    seen = not run.flat
    if run.truth == NEVER and seen:
        # With known pages: that most of them were never read. A lookup that waits for a disk is told by `flat` already.
        read = sum(rate * missed for rate, missed in zip(run.level, run.missed))
        rising = sum(rate < 0.8 * run.level[-1] for rate in run.level)
        few = told and read < 0.6 * run.pages and (run.flat is False or rising >= max(5, len(run.level) / 50))
        seen = few or is_seen(rng, run.level, disturb, 0.5, 0.75)
    elif run.truth == DEGRADING:
        levels = [level * factor for level, factor in zip(run.level, run.swing)]
        best = first_second(run.level, 0.97 * run.final) / len(levels)
        seen = is_seen(rng, levels, disturb, best, run.worse_from / len(levels))
    run.accept = run.accept or ACCEPT[run.truth]
    if not seen:
        run.accept = "steady|not_reached" if run.truth != DEGRADING else "steady|not_reached|degrading"
    run.decidable = seen and run.accept != "steady|not_reached"
    return run.decidable


def draw_curve(rng, shape, told, kind):
    """A run that can be decided, or in one of twelve cases one that cannot, as it comes; `huge` never can without known pages."""
    as_it_comes = rng.random() < 1 / 12 or shape is huge and not told
    for _ in range(100_000):
        run = shape(rng, told)
        if not run:
            continue
        disturb = noise.draw(rng, kind)
        if settle(rng, run, told, disturb) or as_it_comes:
            run.share = run.level[-1] / run.final
            return run, disturb
    raise SystemExit(f"no curve of shape {shape.__name__}")


# Files -----------------------------------------------------------------------------------------------------------------------------

def measure(rng, run, disturb):
    """What pgbench would see of each second: transactions, mean and standard deviation of their time in milliseconds."""
    seconds = len(run.level)
    spread_of_hits, spread_of_misses = log_uniform(rng, 0.15, 2), rng.uniform(0.3, 1)
    factors = disturb(rng, seconds)
    rows = []
    for second in range(seconds):
        ideal = run.level[second] * (run.swing[second] if run.swing else 1)
        rate = (run.exact[second] * (run.swing[second] if run.swing else 1) if run.exact else ideal) * factors[second]
        if ideal <= 0 or rate <= 0:
            rows.append((0, 0.0, 0.0))
            continue
        mean, missed = run.server.clients / ideal, run.missed[second]
        hit = min(run.server.hit, mean)
        wait = (mean - hit) / missed if missed > 1e-9 else 0.0
        variance = (spread_of_hits * hit) ** 2 + missed * wait ** 2 * (1 + spread_of_misses ** 2) - min(1, missed) * missed * wait ** 2
        spread = math.sqrt(max(0.0, variance)) / mean
        if not run.exact:  # transactions that take different times make different counts
            rate += rng.gauss(0, 1) * min(spread, 3) * math.sqrt(rate)
        count = max(0, round(rate))
        time = run.server.clients / max(rate, 0.5) * 1000
        rows.append((count, time, time * spread * rng.uniform(0.9, 1.1)))
    return rows


def join(rows, width):
    """Rows of that many seconds each."""
    joined = []
    for begin in range(0, len(rows) - width + 1, width):
        part = rows[begin:begin + width]
        count = sum(row[0] for row in part)
        weights = [max(row[0], 1e-9) for row in part]
        mean = sum(row[1] * weight for row, weight in zip(part, weights)) / sum(weights)
        second = sum((row[2] ** 2 + row[1] ** 2) * weight for row, weight in zip(part, weights)) / sum(weights)
        joined.append((count, mean, math.sqrt(max(0.0, second - mean ** 2))))
    return joined


def draw_width(rng, seconds, finest):
    widths = [width for width in (1, 2, 5, 10) if finest <= width <= seconds / 24]
    return rng.choice(widths or [1])


def pgbench_lines(rng, rows, width):
    shift = rng.uniform(0, 0.0004)
    for number, (count, mean, spread) in enumerate(rows, start=1):
        passed = width * (1 + rng.gauss(0, 0.0003)) + shift
        yield f"progress: {number * width:.1f} s, {count / passed:.1f} tps, lat {mean:.3f} ms stddev {spread:.3f}, 0 failed"


def pgbench_summary(rng, run, rows, width, scale):
    transactions, seconds = sum(row[0] for row in rows), len(rows) * width
    kind = f"<builtin: {run.script}>" if run.script else "transaction.sql"
    mean = run.server.clients * seconds / max(1, transactions) * 1000
    return [f"transaction type: {kind}", f"scaling factor: {scale}", "query mode: simple", f"number of clients: {run.server.clients}",
            f"number of threads: {min(run.server.clients, rng.choice([1, 2, 4]))}", "maximum number of tries: 1",
            f"duration: {seconds} s", f"number of transactions actually processed: {transactions}",
            "number of failed transactions: 0 (0.000%)", f"latency average = {mean:.3f} ms", f"latency stddev = {mean * 1.1:.3f} ms",
            f"initial connection time = {rng.uniform(2, 6) * run.server.clients:.3f} ms",
            f"tps = {transactions / seconds:.6f} (without initial connection time)"]


def write_curve(rng, folder, name, run, told, rows):
    """The file, and of what is in it: how the pages are told, and the seconds of a line."""
    if rng.random() < 0.15:
        width, separator = draw_width(rng, len(rows), 2), rng.choice([",", ",", ";", "\t"])
        lines = [separator.join(["time", "tps"])]
        lines += [f"{number * width}{separator}{row[0] / width:.2f}" for number, row in enumerate(join(rows, width), start=1)]
        name, how = name + ".csv", "option" if told else "no"
    else:
        width = rng.choice([5, 10]) if len(rows) >= 300 and rng.random() < 0.15 else 1
        joined = join(rows, width)
        lines = ["pgbench (15.18 (Debian 15.18-0+deb12u1))", "starting vacuum...end."] if rng.random() < 0.5 else []
        lines += pgbench_lines(rng, joined, width)
        name, how = name + ".txt", "header" if told else "no"
        if told:
            lines += pgbench_summary(rng, run, joined, width, round(run.pages / PAGES_PER_SCALE))
        elif run.script is SCRIPT and rng.random() < 0.25:  # pgbench says 1 for a script of one's own without --scale
            how = "wrong"
            lines += pgbench_summary(rng, run, joined, width, 1)
    (folder / name).write_text("\n".join(lines) + "\n")
    return name, how, width


FIELDS = ["file", "shape", "noise", "script", "clients", "pages", "pages_told", "seconds", "line_seconds", "final_tps", "truth", "accept",
          "decidable", "from_90_seconds", "from_95_seconds", "end_share"]


ALONG_NOISES = ["gaussian", "neighbours", "recorded"]


def generate(seed, folder, count, is_along=False):
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("[0-9]*.txt"), *folder.glob("[0-9]*.csv")]:
        old.unlink()
    kinds = [kind for kind in noise.KINDS if kind != "recorded"]
    if noise.load_recorded():
        kinds += ["recorded"] * 2
    shapes = order_of_shapes(ALONG if is_along else SHAPES)
    with open(folder / "truth.csv", "w", newline="") as file:
        truth = csv.DictWriter(file, FIELDS, lineterminator="\n")
        truth.writeheader()
        for number in range(count):
            rng = random.Random(f"{seed}/{number}")
            shape, kind = shapes[number % len(shapes)], ALONG_NOISES[number % 3] if is_along else rng.choice(kinds)
            told = rng.random() < (0.8 if shape is huge else 0.5)
            run, disturb = draw_curve(rng, shape, told, kind)
            rows = measure(rng, run, disturb)
            name, how, width = write_curve(rng, folder, f"{number:04}-{shape.__name__}", run, told, rows)
            noise_free = [level * (min(1, factor) if shape is connecting else 1)
                          for level, factor in zip(run.level, run.swing or [1] * len(run.level))]
            final = run.final * (run.swing[-1] if run.truth == DEGRADING else 1)
            truth.writerow({
                "file": name, "shape": shape.__name__, "noise": kind, "script": run.script or "own", "clients": run.server.clients,
                "pages": run.pages, "pages_told": how, "seconds": len(rows), "line_seconds": width, "final_tps": f"{final:.1f}",
                "truth": run.truth, "accept": run.accept, "decidable": "yes" if run.decidable else "no",
                "from_90_seconds": first_second(noise_free, 0.9 * run.final) if run.truth != NEVER else "",
                "from_95_seconds": first_second(noise_free, 0.95 * run.final) if run.truth != NEVER else "",
                "end_share": f"{run.share:.3f}"})


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("seed")
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--count", type=int, default=480)
    arguments.add_argument("--along-a-warmer", action="store_true", help="that family alone, in three noises")
    given = arguments.parse_args()
    generate(given.seed, given.folder, given.count, given.along_a_warmer)


if __name__ == "__main__":
    main()
