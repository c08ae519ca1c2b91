// Where the relations were resident before and after, per strategy.

import type { EChartsOption, HeatmapSeriesOption } from "echarts";
import { type Instant, mean, relationsOf, stripOf, type Tier } from "../curves";
import { element, table } from "../element";
import { bytes, percent } from "../format";
import type { RelationResidency } from "../../generated/record";
import type { WarmersState } from "../warmers_state";
import { textStyle } from "./engine";
import type { ChartPlan, Control, View } from "./figure";

/** Relations that get a picture of their own: those that hold at least this share of all bytes, and not many. */
const LEAST_SHARE = 0.01;
const MOST_PICTURES = 6;

const ROW_HEIGHT = 15;
const INSTANTS: Instant[] = ["before", "after"];
const TIERS: Control = { name: "tier", label: "Tier", options: [["os", "page cache"], ["buffers", "shared_buffers"]] };

const tierOf = (view: View): Tier => (view.choices["tier"] === "buffers" ? "buffers" : "os");

/** One plan per relation that is large enough to matter. */
export function heatMaps(state: WarmersState): ChartPlan[] {
  const relations = relationsOf(state.trials);
  const total = relations.reduce((sum, one) => sum + one.total_bytes, 0);
  return relations
    .filter((one) => one.total_bytes >= total * LEAST_SHARE)
    .slice(0, MOST_PICTURES)
    .map((relation, index) => heatMap(relation, index));
}

function heatMap(relation: RelationResidency, index: number): ChartPlan {
  return {
    id: `heat-${index + 1}`,
    title: relation.relation,
    explanation: `${relation.kind}, ${bytes(relation.total_bytes)}, from its first block at the left to its last at the right.`,
    unit: () => "resident share of each piece, mean of the repeats",
    controls: [TIERS],
    height: (view) => {
      const block = view.state.visible.length * ROW_HEIGHT + 34;
      return (view.isNarrow ? 2 : 1) * block + 34;
    },
    option: (view) => heatOption(relation, view),
    numbers: (view) => sharesTable(view.state, [relation]),
  };
}

function heatOption(relation: RelationResidency, view: View): EChartsOption {
  const { theme } = view.state;
  const rows = [...view.state.visible].reverse();
  const block = rows.length * ROW_HEIGHT;
  const names = 140;
  const half = Math.floor((view.width - names - 24) / 2);
  const grids = INSTANTS.map((_, index) =>
    view.isNarrow
      ? { left: names, right: 4, top: 22 + index * (block + 34), height: block }
      : { left: names + index * (half + 20), width: half, top: 22, height: block },
  );
  const strips = INSTANTS.map((instant) => rows.map((strategy) => stripOf(view.state.trials, strategy, relation.relation, instant, tierOf(view))));
  const pieces = Math.max(1, ...strips.flat().map((strip) => strip.length));
  const positions = Array.from({ length: pieces }, (_, piece) => String(piece));
  return {
    textStyle: textStyle(theme),
    grid: grids,
    xAxis: INSTANTS.map((instant, index) => ({
      type: "category", data: positions, gridIndex: index, name: instant, nameLocation: "middle", position: "top",
      nameGap: 6, nameTextStyle: { color: theme.soft, fontSize: 12 },
      axisLine: { show: false }, axisTick: { show: false }, axisLabel: { show: false },
    })),
    yAxis: INSTANTS.map((_, index) => ({
      type: "category", data: rows, gridIndex: index,
      axisLine: { show: false }, axisTick: { show: false },
      axisLabel: { show: index === 0 || view.isNarrow, color: theme.ink, fontSize: 11, interval: 0, width: names - 12, overflow: "truncate" },
    })),
    visualMap: {
      min: 0, max: 1, dimension: 2, calculable: false, orient: "horizontal", left: view.isNarrow ? 0 : names, bottom: 0, itemHeight: 90, itemWidth: 9,
      text: ["all", "nothing resident"], textStyle: { color: theme.soft, fontSize: 11 }, inRange: { color: theme.heat },
    },
    tooltip: { confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
      formatter: (params) => (Array.isArray(params) ? "" : pointed(params, rows, pieces)) },
    series: strips.map((ofInstant, index) => heatSeries(ofInstant, index, view)),
  };
}

function heatSeries(strips: number[][], index: number, view: View): HeatmapSeriesOption {
  return {
    type: "heatmap",
    id: INSTANTS[index] ?? "",
    name: INSTANTS[index] ?? "",
    xAxisIndex: index,
    yAxisIndex: index,
    data: strips.flatMap((strip, row) => strip.map((share, piece): [number, number, number] => [piece, row, share])),
    itemStyle: { borderColor: view.state.theme.paper, borderWidth: 0 },
    emphasis: { itemStyle: { borderColor: view.state.theme.ink, borderWidth: 1 } },
    progressive: 0,
  };
}

function pointed(params: { value?: unknown; seriesName?: string }, rows: string[], pieces: number): HTMLElement {
  const [piece, row, share] = Array.isArray(params.value) ? (params.value as number[]) : [];
  const from = percent((piece ?? 0) / pieces);
  const to = percent(((piece ?? 0) + 1) / pieces);
  return element("div", { class: "pointer" },
    element("p", {}, `${rows[row ?? 0] ?? ""}, ${params.seriesName ?? ""}`),
    element("p", {}, `${percent(share ?? 0)} of the piece from ${from} to ${to}`));
}

/** The resident shares of whole relations: every strategy, before and after, both tiers. */
export function sharesTable(state: WarmersState, relations: RelationResidency[]): HTMLElement {
  const columns = ["relation", "size", "strategy", "page cache before", "page cache after", "shared_buffers before", "shared_buffers after"].map(
    (title, index) => ({ title, isNumber: index === 1 || index > 2 }),
  );
  const share = (strategy: string, relation: string, instant: Instant, tier: Tier): string => {
    const strip = stripOf(state.trials, strategy, relation, instant, tier);
    return strip.length === 0 ? "–" : percent(mean(strip));
  };
  const rows = relations.flatMap((one) =>
    state.visible.map((strategy) => [
      one.relation,
      bytes(one.total_bytes),
      strategy,
      share(strategy, one.relation, "before", "os"),
      share(strategy, one.relation, "after", "os"),
      share(strategy, one.relation, "before", "buffers"),
      share(strategy, one.relation, "after", "buffers"),
    ]),
  );
  return table("Resident shares of relations", columns, rows);
}
