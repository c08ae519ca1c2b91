#!/usr/bin/env python3
"""Verdicts over curves whose truth is known, as tables in Markdown: README.md beside this."""
import argparse
import collections
import csv
import json
import math
import pathlib
import statistics
import subprocess

import anchors

LEVELS = ("steady", "periodic")
VERDICTS = [*LEVELS, "cold", "not_reached", "degrading", "none"]
TRUTHS = ["warm", "periodic", "never_warm", "degrading"]


def judge_by_program(program, path, curve):
    """Verdict, from when on, why, the level with its share of uncertainty, and whether it is called warm.

    A level that is called cold is `cold`: the exit status of both is that of no level."""
    command = [program, "judge", "--json"]
    if curve["pages_told"] == "option":
        command += ["--pages", curve["pages"]]
    done = subprocess.run([*command, path], capture_output=True, text=True)
    try:
        told = json.loads(done.stdout)["curves"][0]
    except (ValueError, LookupError):
        return "none", None, done.stderr.strip().replace("\n", " "), None, None
    if told["error"]:
        return "none", None, told["error"], None, None
    warmth = told.get("warmth") or {}
    # Judges of before called warm what they called steady.
    is_warm = warmth.get("is_warm") if "warmth" in told else told["verdict"] in LEVELS or None
    verdict = "cold" if told["verdict"] in LEVELS and is_warm is False else told["verdict"]
    reason = "; ".join(filter(None, [told["reason"], warmth.get("evidence")]))
    return verdict, told["steady_from_seconds"], reason, (told["steady_tps"], told["level_error_share"]), is_warm


def judge_all(folder, curves, judge):
    for curve in curves:
        verdict, begin, reason, level, is_warm = judge(folder / curve["file"], curve)
        yield {**curve, "verdict": verdict, "begin": begin, "reason": reason, "level": level, "is_warm": is_warm}


def anchor(judge):
    def judge_file(path, _):
        line_seconds, rates = anchors.read_curve(path)
        verdict, begin = judge(rates)
        return verdict, begin if begin is None else begin * line_seconds, "", None, verdict in LEVELS or None
    return judge_file


def is_refused(one):
    return one["truth"] in ("warm", "periodic") and one["verdict"] not in ("steady", "periodic", *one["accept"].split("|"))


def is_false_warm(one):
    return one["truth"] == "never_warm" and one["is_warm"] is True


def is_hidden(one):
    return one["truth"] == "degrading" and one["verdict"] in ("steady", "periodic")


def is_early(one):
    """Steady from more than the seconds of a line before 90 % of the final level were reached."""
    return (one["truth"] in ("warm", "periodic") and one["begin"] is not None
            and one["begin"] < float(one["from_90_seconds"]) - float(one["line_seconds"]))


def levels(judged):
    """How often the true level of what is warm lies within the interval that is told, and how wide that is."""
    told = [(float(one["final_tps"]) * float(one["end_share"]), *one["level"]) for one in judged
            if one["truth"] == "warm" and one["verdict"] == "steady" and one["level"][1] is not None]
    held = sum(abs(math.log(final / level)) <= error for final, level, error in told)
    width = 100 * statistics.median(error for *_, error in told) if told else 0
    yield f"The true level of steady curves lies within its ± in {of(held, len(told))}; half of these are at most ±{width:.1f} %.\n"


def of(number, total):
    return f"{number} of {total} ({100 * number / total:.1f} %)" if total else "–"


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"
    yield ""


def rates(judged):
    warm = [one for one in judged if one["truth"] in ("warm", "periodic")]
    never = [one for one in judged if one["truth"] == "never_warm"]
    worse = [one for one in judged if one["truth"] == "degrading"]
    dated = [one for one in warm if one["begin"] is not None]
    return [of(sum(map(is_refused, warm)), len(warm)), of(sum(one["is_warm"] is True for one in warm), len(warm)),
            of(sum(map(is_false_warm, never)), len(never)),
            of(sum(map(is_hidden, worse)), len(worse)), of(sum(map(is_early, dated)), len(dated))]


RATES = ["warm refused a level", "warm called warm", "never warm called warm", "degrading called steady", "steady too early"]


def is_accepted(one):
    """A cold level is a level: of what was never warm it is wrong to call it warm alone."""
    return one["verdict"] in one["accept"].split("|") or one["truth"] == "never_warm" and not is_false_warm(one)


def by(judged, field):
    groups = collections.defaultdict(list)
    for one in judged:
        groups[one[field]].append(one)
    return table([field.replace("_", " "), "curves", "not accepted", *RATES],
                 [[name, len(group), sum(not is_accepted(one) for one in group), *rates(group)]
                  for name, group in sorted(groups.items())])


def confusion(judged):
    counts = collections.Counter((one["truth"], one["verdict"]) for one in judged)
    return table(["truth", *VERDICTS], [[truth, *(counts[truth, verdict] or "" for verdict in VERDICTS)]
                                        for truth in TRUTHS if any(counts[truth, verdict] for verdict in VERDICTS)])


def worst(judged, most):
    def how_bad(one):
        if is_false_warm(one):
            return 0, float(one["end_share"] or 1)
        if is_refused(one):
            return 1, -float(one["seconds"])
        if is_early(one):
            return 2, float(one["begin"]) - float(one["from_90_seconds"])
        return 3, 0

    wrong = [one for one in judged if is_early(one) or not is_accepted(one)]
    wrong.sort(key=how_bad)
    return table(["file", "noise", "seconds", "pages told", "truth", "share at the end", "90 % from", "verdict", "from", "reason"],
                 [[one["file"], one["noise"], one["seconds"], one["pages_told"], one["truth"], one["end_share"], one["from_90_seconds"],
                   one["verdict"], "" if one["begin"] is None else f"{one['begin']:.0f}", one["reason"].replace("|", "/")]
                  for one in wrong[:most]])


def report(folder, curves, program, with_anchors, most):
    ways = {"pgthaw": lambda path, curve: judge_by_program(program, path, curve)}
    if with_anchors:
        ways |= {name: anchor(judge) for name, judge in anchors.ANCHORS.items()}
    everything = {name: list(judge_all(folder, curves, judge)) for name, judge in ways.items()}
    decided = {name: [one for one in judged if one["decidable"] == "yes"] for name, judged in everything.items()}
    yield f"{len(curves)} curves, of which {len(decided['pgthaw'])} can be decided.\n"
    yield from table(["judge", *RATES], [[name, *rates(judged)] for name, judged in decided.items()])
    yield "What pgthaw says of those that can be decided:\n"
    yield from confusion(decided["pgthaw"])
    yield from levels(decided["pgthaw"])
    undecided = [one for one in everything["pgthaw"] if one["decidable"] != "yes"]
    if undecided:
        yield "And of those that cannot, by their curve and what is told:\n"
        yield from confusion(undecided)
    for field in ("shape", "noise", "pages_told"):
        yield from by(decided["pgthaw"], field)
    yield "The worst:\n"
    yield from worst(decided["pgthaw"], most)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=pathlib.Path, help="with truth.csv and the curves that it names")
    arguments.add_argument("--pgthaw", default="target/release/pgthaw", metavar="PATH")
    arguments.add_argument("--no-anchors", action="store_true", help="pgthaw alone, which is quicker")
    arguments.add_argument("--worst", type=int, default=40, metavar="N", help="how many files are named")
    given = arguments.parse_args()
    with open(given.folder / "truth.csv", newline="") as file:
        curves = list(csv.DictReader(file))
    for line in report(given.folder, curves, given.pgthaw, not given.no_anchors, given.worst):
        print(line)


if __name__ == "__main__":
    main()
