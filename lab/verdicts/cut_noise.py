#!/usr/bin/env python3
"""Makes noise/*.txt of recorded runs: from when all was warm and connected, each second's rate as a ratio to the median.

Only runs whose means of ten seconds differ by less than 15 % of their mean: of a run that moves more than that nobody can say what
its level is, and a curve with such a disturbance has no truth. All of them stay in recorded/, to be judged as they are.
"""
import pathlib
import statistics

import anchors

HERE = pathlib.Path(__file__).parent
WARM_FROM = {"cold-select-c16-unlimited": 6, "cold-select-c2-bytes": 26, "cold-select-c4-crowded": 19, "cold-select-c4": 20,
             "cold-select-c8": 30}  # by the device's reads
MOST = 0.15


def main():
    (HERE / "noise").mkdir(exist_ok=True)
    for path in sorted((HERE / "recorded").glob("*.txt")):
        if path.stem not in WARM_FROM and not path.stem.startswith("warm-"):
            continue
        rates = anchors.read_curve(path)[1][WARM_FROM.get(path.stem, 2):]
        middle = statistics.median(rates)
        ratios = [rate / middle for rate in rates]
        slow = statistics.pstdev(statistics.fmean(ratios[at:at + 10]) for at in range(0, len(ratios) - 9, 10))
        print(f"{path.stem}: {len(ratios)} s, deviation {statistics.pstdev(ratios):.2f}, of means of ten {slow:.2f}"
              f"{'' if slow < MOST else ', left out'}")
        if slow < MOST:
            (HERE / "noise" / path.name).write_text("".join(f"{ratio:.3f}\n" for ratio in ratios))


if __name__ == "__main__":
    main()
