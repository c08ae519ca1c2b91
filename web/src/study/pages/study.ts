// A study: its question, what speaks against it, and its points in pictures and tables.

import type { Appearance } from "../../appearance";
import { figure } from "../../charts/figure";
import { element } from "../../element";
import { fold } from "../../fold";
import { runningBanner } from "../../navigation";
import { lines } from "../charts/lines";
import { tradeOff } from "../charts/trade_off";
import { background } from "../sections/background";
import { beside } from "../sections/beside";
import { downloads } from "../sections/downloads";
import { facts } from "../sections/facts";
import { fooled } from "../sections/fooled";
import { head, verdicts } from "../sections/head";
import { heatMap } from "../sections/heat_map";
import { noise } from "../sections/noise";
import { pivotBar } from "../sections/pivot_bar";
import { everyPoint } from "../sections/points";
import type { Source } from "../source";
import { StudyState } from "../state";

export async function studyPage(source: Source, appearance: Appearance, id: string): Promise<HTMLElement[]> {
  const study = await source.study(id);
  const top = [...(source.isServed ? [runningBanner(() => source.live(), study.sweep.id, "")] : []), head(study), verdicts(study)];
  if (study.points.length === 0) return [...top, element("p", {}, "No trial has ended yet."), facts(study)];
  const state = new StudyState(study, appearance);
  return [
    ...top,
    element("section", { "aria-labelledby": "pictures" }, element("h2", { id: "pictures" }, "The points"), pivotBar(state), heatMap(state)),
    ...(state.axes.length > 0 ? [fold("curves", "The points as curves", figure(lines, state))] : []),
    fold("costs", "Throughput is not all", fooled(state), figure(tradeOff, state), noise(study)),
    fold("every-point", "Every point and every trial", everyPoint(study)),
    fold("writes", "Checkpoints and settings", background(state), beside(state, source)),
    facts(study),
    downloads(study),
  ];
}
