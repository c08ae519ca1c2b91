"""Throughput of a server that warms, by arithmetic alone: what a transaction that misses waits for, and what stays in memory.

Nothing here is shared with pgthaw: the bench would find no error that both make.
"""
import bisect
import dataclasses
import math

UNLIMITED = math.inf


@dataclasses.dataclass
class Server:
    clients: int
    hit: float  # seconds of a transaction, at that many clients, with all in memory
    miss: float  # seconds that a page from the device adds
    reads: float = UNLIMITED  # that the device allows in a second

    def rate(self, missed):
        """Transactions per second while each waits for so many pages on average."""
        asked = self.clients / (self.hit + missed * self.miss)
        if missed <= 0 or self.reads == UNLIMITED:
            return asked
        return (asked ** -4 + (self.reads / missed) ** -4) ** -0.25

    def final(self):
        return self.clients / self.hit


class Warming:
    """Transactions that choose pages evenly within each part of a database that begins cold.

    `parts` are pairs: the part's share of the pages, and how many of its pages a transaction asks for. Of a part that fits into
    memory only partly the share `floor` is always missing. Times are for a database of one page: they grow with the pages.
    """
    STEPS = 1500

    def __init__(self, server, parts, floor=0.0):
        self.server, self.parts, self.floor = server, parts, floor
        last = 14 * max(share / asked for share, asked in parts)
        self.done = [last * (step / self.STEPS) ** 3 for step in range(self.STEPS + 1)]  # transactions per page
        self.rates = [server.rate(self.missed(done)) for done in self.done]
        self.times = [0.0]
        for step in range(self.STEPS):
            mean = (1 / self.rates[step] + 1 / self.rates[step + 1]) / 2
            self.times.append(self.times[-1] + mean * (self.done[step + 1] - self.done[step]))
        self.end_rate = server.rate(floor * sum(asked for _, asked in parts))

    def missed(self, done):
        return sum(asked * max(self.floor, math.exp(-asked * done / share)) for share, asked in self.parts)

    def time_of(self, share):
        """When that share of the final rate is reached, in seconds per page of the database."""
        step = next((step for step, rate in enumerate(self.rates) if rate >= share * self.end_rate), None)
        return None if step is None else self.times[step]

    def done_at(self, time):
        step = bisect.bisect_right(self.times, time) - 1
        if step >= self.STEPS:
            return self.done[-1] + (time - self.times[-1]) * self.end_rate
        part = (time - self.times[step]) / (self.times[step + 1] - self.times[step])
        return self.done[step] + part * (self.done[step + 1] - self.done[step])

    def seconds(self, pages, seconds):
        """Of each second its transactions, and the pages that one of them missed."""
        done = [self.done_at(second / pages) for second in range(seconds + 1)]
        rates = [pages * (done[second + 1] - done[second]) for second in range(seconds)]
        return rates, [self.missed((done[second] + done[second + 1]) / 2) for second in range(seconds)]


def count_one_client(rng, server, pages, seconds):
    """Transactions of each second of one client who asks for one of the pages at random each time, one by one.

    Between two misses the number of hits is geometric, so only the misses cost time here.
    """
    counts = [0.0] * seconds
    now, missing = 0.0, pages

    def spend(transactions, until):
        """Spread transactions evenly from now until then over the seconds."""
        nonlocal now
        pace = transactions / (until - now)
        while now < until and int(now) < seconds:
            edge = min(until, int(now) + 1.0)
            counts[int(now)] += pace * (edge - now)
            now = edge if edge > now else until
        now = until

    while missing and now < seconds:
        share = missing / pages
        hits = 0 if share >= 1 else int(math.log(1 - rng.random()) / math.log(1 - share))
        if hits:
            spend(hits, now + hits * server.hit)
        if now < seconds:
            spend(1, now + server.hit + server.miss * (0.4 + rng.expovariate(1 / 0.6)))
        missing -= 1
    if now < seconds:
        spend((seconds - now) / server.hit, float(seconds))
    return counts
