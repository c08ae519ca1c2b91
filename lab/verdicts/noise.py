"""What disturbs a throughput curve: factors around 1, one a second.

`draw(rng, kind)` settles the parameters of one disturbance and gives back a function (rng, seconds) -> factors, so that the same
disturbance can be played again with other chances.
"""
import math
import pathlib

RECORDED = pathlib.Path(__file__).with_name("noise")


def log_uniform(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def autoregressive(rng, seconds, sigma, rho):
    """Gaussian, with the standard deviation sigma and the correlation rho from one second to the next."""
    fresh = sigma * math.sqrt(1 - rho * rho)
    value = rng.gauss(0, sigma)
    values = []
    for _ in range(seconds):
        values.append(1 + value)
        value = rho * value + rng.gauss(0, fresh)
    return values


def student_3(rng):
    """Student's t with three degrees of freedom, scaled to a standard deviation of 1."""
    return rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3) / math.sqrt(3)


def gaussian(rng):
    sigma, rho = log_uniform(rng, 0.01, 0.12), rng.choice([0, 0, 0.3, 0.6, 0.9, 0.97])
    return lambda chance, seconds: autoregressive(chance, seconds, sigma, rho)


def heavy(rng):
    sigma, rho = log_uniform(rng, 0.01, 0.08), rng.choice([0, 0, 0.3, 0.6])

    def play(chance, seconds):
        value, values = 0.0, []
        for _ in range(seconds):
            value = rho * value + math.sqrt(1 - rho * rho) * sigma * student_3(chance)
            values.append(max(0.03, 1 + value))
        return values
    return play


def dips(rng):
    """Seconds that are lost: single ones, and two to six in a row."""
    sigma, rho = log_uniform(rng, 0.01, 0.04), rng.choice([0, 0.5])
    apart, deepest = log_uniform(rng, 20, 200), rng.uniform(0.2, 0.7)

    def play(chance, seconds):
        values = autoregressive(chance, seconds, sigma, rho)
        at = chance.expovariate(1 / apart)
        while at < seconds:
            lasts = 1 if chance.random() < 0.6 else chance.randint(2, 6)
            depth = chance.uniform(0.1, deepest)
            for second in range(int(at), min(seconds, int(at) + lasts)):
                values[second] *= 1 - depth
            at += lasts + chance.expovariate(1 / apart)
        return values
    return play


def neighbours(rng):
    """Others on the machine come and go: levels that last."""
    sigma, height = log_uniform(rng, 0.01, 0.03), rng.uniform(0.05, 0.15)
    shortest, longest, idle = 5, rng.uniform(10, 60), rng.uniform(0.2, 0.7)

    def play(chance, seconds):
        values = autoregressive(chance, seconds, sigma, 0.3)
        second = 0
        while second < seconds:
            until = second + max(1, round(log_uniform(chance, shortest, longest)))
            level = 1 if chance.random() < idle else 1 + chance.choice([-1, 1]) * height
            for at in range(second, min(seconds, until)):
                values[at] *= level
            second = until
        return values
    return play


def wander(rng):
    """Close to 1/f: equal parts of every octave of time constants from 2 s to 512 s."""
    sigma = log_uniform(rng, 0.015, 0.07)

    def play(chance, seconds):
        octaves = [autoregressive(chance, seconds, sigma / 3, math.exp(-1 / 2 ** octave)) for octave in range(1, 10)]
        return [max(0.05, 1 + sum(octave[at] - 1 for octave in octaves)) for at in range(seconds)]
    return play


def mixed(rng):
    """Neighbours, dips and a heavy-tailed rest at once."""
    parts = [neighbours(rng), dips(rng), heavy(rng)]

    def play(chance, seconds):
        played = [part(chance, seconds) for part in parts]
        return [math.prod(at) for at in zip(*played)]
    return play


def load_recorded():
    """Recorded runs as ratios to their own median, by name."""
    return {path.stem: [float(line) for line in path.read_text().split()] for path in sorted(RECORDED.glob("*.txt"))}


def recorded(rng):
    """Pieces of a recorded run in any order, forwards or backwards, maybe stretched: a whole run again and again would be a period."""
    runs = load_recorded()
    ratios = runs[rng.choice(sorted(runs))]
    stretch = rng.choice([1, 1, 1, 1.5, 2])

    def play(chance, seconds):
        line = []
        while len(line) * stretch < seconds + 1:
            lasts = chance.randint(len(ratios) // 3, len(ratios))
            begin = chance.randint(0, len(ratios) - lasts)
            line += ratios[begin:begin + lasts][::chance.choice([-1, 1])]
        return [line[int(second / stretch)] for second in range(seconds)]
    return play


KINDS = {"gaussian": gaussian, "heavy": heavy, "dips": dips, "neighbours": neighbours, "wander": wander, "mixed": mixed,
         "recorded": recorded}


def draw(rng, kind):
    """The disturbance of that kind with parameters of its own; never below 3 % of the undisturbed."""
    play = KINDS[kind](rng)
    return lambda chance, seconds: [max(0.03, factor) for factor in play(chance, seconds)]
