"""Three published ways to say from when on a series is steady, for comparison. None knows pages, clients or latency.

Each takes rates of equal intervals and gives back (verdict, number of the interval from which it is steady, or None).
"""
import math
import pathlib
import re
import statistics

PROGRESS = re.compile(r"^progress: ([0-9.]+) s, ([0-9.]+) tps")


def read_curve(path):
    """Seconds of a line and the rates."""
    times, rates = [], []
    for line in pathlib.Path(path).read_text().splitlines():
        found = PROGRESS.match(line)
        fields = found.groups() if found else re.split(r"[,;\t]", line) if str(path).endswith(".csv") else []
        try:
            time, rate = map(float, fields[:2])
        except ValueError:
            continue
        times.append(time)
        rates.append(rate)
    return times[0], rates


# Change points ---------------------------------------------------------------------------------------------------------------------
# E. Barrett, C. F. Bolz-Tereick, R. Killick, S. Mount, L. Tratt: Virtual Machine Warmup Blows Hot and Cold, 2017. Outliers are left
# out; segments of one mean and variance are found by PELT with the penalty 15 ln n; those whose mean is that of the last, give or take
# the greater of its variance and 0.001, are one with it; together they have to cover the last quarter (500 of 2000 iterations).
# The paper's values are seconds of iterations that last about one, so here each is the time of a transaction over the mean time.

def mark_outliers(values, window=200):
    """Tukey's fences around the median of the surrounding values, three ranges of the tenth to ninetieth percentile wide."""
    marks = []
    for begin in range(0, len(values), window // 4):
        ranked = sorted(values[max(0, begin - 3 * window // 8):begin + 5 * window // 8])
        low, middle, high = (ranked[int(share * (len(ranked) - 1))] for share in (0.1, 0.5, 0.9))
        marks += [abs(value - middle) > 3 * (high - low) for value in values[begin:begin + window // 4]]
    return marks


def find_segments(values, least=2):
    """PELT of R. Killick, P. Fearnhead, I. A. Eckley, 2012: where segments of one mean and variance begin."""
    count, penalty = len(values), 15 * math.log(len(values))
    sums, squares = [0.0], [0.0]
    for value in values:
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)
    best, before, candidates = [-penalty] + [math.inf] * count, [0] * (count + 1), [0]
    log = math.log
    for end in range(least, count + 1):
        costs = []
        for begin in candidates:
            length = end - begin
            total = sums[end] - sums[begin]
            variance = (squares[end] - squares[begin] - total * total / length) / length
            costs.append(best[begin] + length * (log(variance if variance > 1e-9 else 1e-9) + 2.8378770664))
        least_cost = min(costs)
        best[end], before[end] = least_cost + penalty, candidates[costs.index(least_cost)]
        candidates = [begin for begin, cost in zip(candidates, costs) if cost <= best[end]]
        if end - least + 1 >= least:
            candidates.append(end - least + 1)
    begins, end = [], count
    while end > 0:
        end = before[end]
        begins.append(end)
    return begins[::-1]


def judge_by_change_points(rates):
    floor = max(statistics.fmean(rates) / 1000, 1e-9)
    times = [1 / max(rate, floor) for rate in rates]
    mean = statistics.fmean(times)
    times = [time / mean for time in times]
    kept = [(place, time) for place, (time, out) in enumerate(zip(times, mark_outliers(times))) if not out]
    values = [time for _, time in kept]
    if len(values) < 8:
        return "not_reached", None
    begins = find_segments(values)
    parts = [values[begin:end] for begin, end in zip(begins, begins[1:] + [len(values)])]
    last, tolerance = statistics.fmean(parts[-1]), max(statistics.pvariance(parts[-1]), 0.001)
    first = len(parts) - 1
    while first and abs(statistics.fmean(parts[first - 1]) - last) <= tolerance:
        first -= 1
    if kept[begins[first]][0] > 0.75 * len(rates):
        return "not_reached", None
    if any(statistics.fmean(part) < last - tolerance for part in parts[:first]):
        return "degrading", None
    return "steady", kept[begins[first]][0] if first else 0


# The marginal standard error rule --------------------------------------------------------------------------------------------------
# K. P. White: An Effective Truncation Heuristic for Bias Reduction in Simulation Output, 1997; in batches of five. A cut in the second
# half means that the run was too short.

def judge_by_mser(rates, batch=5):
    batch = batch if len(rates) >= 10 * batch else 1
    means = [statistics.fmean(rates[at:at + batch]) for at in range(0, len(rates) - batch + 1, batch)]
    count, total, square = 0, 0.0, 0.0
    errors = {}
    for cut in range(len(means) - 1, -1, -1):
        count, total, square = count + 1, total + means[cut], square + means[cut] ** 2
        if count >= 5:
            errors[cut] = (square - total * total / count) / count ** 2
    if not errors:
        return "not_reached", None
    cut = min(errors, key=lambda at: (errors[at], at))
    return ("steady", cut * batch) if cut <= len(means) / 2 else ("not_reached", None)


# Geweke's diagnostic ---------------------------------------------------------------------------------------------------------------
# J. Geweke, 1992: the mean of the first tenth against that of the last half, by their spectral density at zero; the usual cuts of up to
# half of the run are tried.

def variance_of_mean(values):
    """With a correlation that falls by the same factor each step."""
    mean = statistics.fmean(values)
    around = [value - mean for value in values]
    square = sum(value * value for value in around)
    if not square:
        return 0.0
    rho = max(0.0, min(0.99, sum(a * b for a, b in zip(around, around[1:])) / square))
    return square / len(values) ** 2 * (1 + rho) / (1 - rho)


def judge_by_geweke(rates):
    for cut in (0, 0.1, 0.2, 0.3, 0.4, 0.5):
        rest = rates[int(cut * len(rates)):]
        first, last = rest[:max(2, len(rest) // 10)], rest[len(rest) // 2:]
        error = math.sqrt(variance_of_mean(first) + variance_of_mean(last))
        if abs(statistics.fmean(first) - statistics.fmean(last)) <= 1.96 * error:
            return "steady", int(cut * len(rates))
    return "not_reached", None


ANCHORS = {"change points": judge_by_change_points, "MSER-5": judge_by_mser, "Geweke": judge_by_geweke}
