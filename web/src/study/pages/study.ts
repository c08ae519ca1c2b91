// A study: its question, what speaks against it, and its points in pictures and tables.

import type { Appearance } from "../../appearance";
import { figure } from "../../charts/figure";
import { element } from "../../element";
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
  const top = [head(study), verdicts(study)];
  if (study.points.length === 0) return [...top, element("p", {}, "No trial has ended yet."), facts(study)];
  const state = new StudyState(study, appearance);
  const section = (name: string, title: string, ...children: (HTMLElement | null)[]): HTMLElement =>
    element("section", { "aria-labelledby": name }, element("h2", { id: name }, title), ...children);
  return [
    ...top,
    section("pictures", "The points", pivotBar(state), heatMap(state), state.axes.length > 0 ? figure(lines, state) : null),
    section("costs", "Throughput is not all", fooled(state), figure(tradeOff, state), noise(study)),
    section("writes", "Checkpoints and settings", background(state), beside(state, source)),
    section("every-point", "Every point and every trial", everyPoint(study)),
    facts(study),
    downloads(study),
  ];
}
