// The report of runs: one of them at a time.

import { charts, figure } from "./charts/figure";
import { heatMaps, sharesTable } from "./charts/heat_maps";
import { interference } from "./charts/interference";
import { ratios } from "./charts/ratios";
import { device, latencies, resident, served, throughput } from "./charts/time_charts";
import { warmTimes } from "./charts/warm_times";
import { relationsOf } from "./curves";
import { element } from "./element";
import { fold } from "./fold";
import type { PageData, RunData } from "./record";
import { downloads } from "./sections/downloads";
import { facts } from "./sections/facts";
import { head } from "./sections/head";
import { interferenceTable } from "./sections/interference";
import { legend } from "./sections/legend";
import { method } from "./sections/method";
import { runs } from "./sections/runs";
import { tournament } from "./sections/tournament";
import { trust } from "./sections/trust";
import { verdicts } from "./sections/verdicts";
import { State } from "./state";

/** Builds the page from its data, and from the JSON that they were read from. */
export function showRuns(page: PageData, json: string): void {
  show([page, ...page.further], 0, json, page.is_served ? "../" : null);
}

/** Builds the page for one of its runs; `home` is the server's front page as seen from here. */
function show(all: RunData[], index: number, json: string, home: string | null): void {
  const data = all[index];
  if (!data) return;
  for (const chart of charts.values()) chart.dispose();
  charts.clear();
  const state = new State(data);
  const switcher = runs(all, index, (chosen) => {
    show(all, chosen, json, home);
    document.querySelector<HTMLElement>('.runs [aria-pressed="true"]')?.focus();
  });
  document.getElementById("page")?.replaceChildren(head(state, switcher, home), trust(data), ...sections(state, json));
  window.pgthawReport = { charts };
}

/** The first picture, and below it everything that unfolds. */
function sections(state: State, json: string): HTMLElement[] {
  const { data } = state;
  const [ratioPlan, interferencePlan] = [ratios(data), interference(data)];
  return [
    element(
      "section",
      { class: "charts", "aria-labelledby": "curves" },
      element("h2", { id: "curves" }, "How it warmed up"),
      legend(state),
      figure(throughput, state),
      fold(
        "meanwhile",
        "Meanwhile: what users got, memory and the device",
        figure(served, state),
        interferencePlan && figure(interferencePlan, state),
        interferencePlan && interferenceTable(data),
        ...[resident, device].map((plan) => figure(plan, state)),
        figure(latencies, state),
      ),
    ),
    fold("result", "Times and ratios of every strategy", figure(warmTimes, state), ratioPlan && figure(ratioPlan, state), tournament(state), verdicts(data)),
    residency(state),
    facts(data),
    downloads(data, json),
    method(data),
  ];
}

function residency(state: State): HTMLElement {
  const relations = relationsOf(state.data.trials);
  const all = element("details", { class: "numbers" }, element("summary", {}, `All ${relations.length} relations as a table`));
  all.addEventListener("toggle", () => {
    if (all.open && all.childElementCount === 1) all.append(sharesTable(state, relations));
  });
  return fold(
    "residency",
    "What was in memory, before and after",
    element("p", { class: "lead" }, "Every relation is cut into equal pieces. The stronger its colour, the more of a piece was resident when the trial began and when it ended."),
    ...(relations.length === 0 ? [element("p", { class: "soft" }, "No residency was stored with these trials.")] : []),
    ...heatMaps(state).map((plan) => figure(plan, state)),
    relations.length > 0 && all,
  );
}
