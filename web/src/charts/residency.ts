import type { EChartsOption } from "echarts";
import type { WarmersStage } from "../curve_stage";
import { type Instant, mean, relationsOf, stripOf, type Tier } from "../curves";
import { table } from "../element";
import { bytes, percent, seconds } from "../format";
import type { RelationResidency, ResidencyCourse, TrialData } from "../../generated/record";
import { categoryOf, type ChartPlan, type Control, pointer, pointerList, type View } from "./figure";
import type { TrialStage } from "./trial_chart";

interface Heat {
  rows: string[];
  rowHeight: number;
  names: number;
  fontSize: number;
  /** Charts side by side, or stacked on a narrow page. */
  panels: { id: string; strips: number[][] }[];
  columns: string[] | null;
  told: (panel: string, row: string, column: number, share: number, columns: number) => string[];
}

const GAP = 34;
const HEAD = 22;

function heatOption({ theme, isNarrow, width }: View, { rows, rowHeight, names, fontSize, panels, columns, told }: Heat): EChartsOption {
  const block = rows.length * rowHeight;
  const half = Math.floor((width - names - 24) / 2);
  const most = Math.max(1, ...panels.flatMap(({ strips }) => strips.map((strip) => strip.length)));
  const isLone = panels.length === 1;
  return {
    grid: panels.map((_, index) => isLone || isNarrow
      ? { left: names, right: isLone ? 16 : 4, top: (isLone ? 6 : HEAD) + index * (block + GAP), height: block }
      : { left: names + index * (half + 20), width: half, top: HEAD, height: block }),
    xAxis: panels.map(({ id }, index) => ({
      ...categoryOf(theme, columns ?? Array.from({ length: most }, (_, place) => String(place))), gridIndex: index,
      ...(columns === null ? { name: id, nameLocation: "middle" as const, position: "top" as const, nameGap: 6, axisLabel: { show: false } } : {}),
    })),
    yAxis: panels.map((_, index) => ({
      ...categoryOf(theme, rows), inverse: true, gridIndex: index,
      axisLabel: { show: index === 0 || isNarrow, color: theme.ink, fontSize, interval: 0, width: names - 12, overflow: "truncate" },
    })),
    visualMap: {
      min: 0, max: 1, dimension: 2, calculable: false, orient: "horizontal", left: isNarrow ? 0 : names, bottom: 0, itemHeight: 90, itemWidth: 9,
      text: ["all", "nothing resident"], textStyle: { color: theme.soft, fontSize: 11 }, inRange: { color: theme.heat },
    },
    tooltip: pointer(theme, "item", ([one]) => {
      const [panel, value] = [panels[one?.seriesIndex ?? 0], one?.value];
      const [column = 0, row = 0, share = 0] = Array.isArray(value) ? (value as number[]) : [];
      return panel === undefined ? "" : pointerList(told(panel.id, rows[row] ?? "", column, share, most), []);
    }),
    series: panels.map(({ id, strips }, index) => ({
      type: "heatmap", id, xAxisIndex: index, yAxisIndex: index, progressive: 0,
      data: strips.flatMap((strip, row) => strip.map((share, place): [number, number, number] => [place, row, share])),
      itemStyle: { borderColor: theme.paper, borderWidth: 0 }, emphasis: { itemStyle: { borderColor: theme.ink, borderWidth: 1 } },
    })),
  };
}

/** A relation with less than this share of all bytes gets no chart of its own. */
const LEAST_SHARE = 0.01;
const MOST_PICTURES = 6;

const ROW_HEIGHT = 15;
const INSTANTS: Instant[] = ["before", "after"];
const TIERS: Control = { name: "tier", label: "Tier", options: [["os", "page cache"], ["buffers", "shared_buffers"]] };

export function heatMaps(state: WarmersStage): ChartPlan<WarmersStage>[] {
  const relations = relationsOf(state.trials);
  const total = relations.reduce((sum, one) => sum + one.total_bytes, 0);
  return relations.filter((one) => one.total_bytes >= total * LEAST_SHARE).slice(0, MOST_PICTURES).map((relation, index) => ({
    id: `heat-${index + 1}`,
    title: relation.relation,
    explanation: `${relation.kind}, ${bytes(relation.total_bytes)}, from its first block at the left to its last at the right.`,
    unit: () => "resident share of each piece of the relation, mean of the repeats",
    controls: [TIERS],
    height: (view) => (view.isNarrow ? 2 : 1) * (view.state.visible.length * ROW_HEIGHT + GAP) + GAP,
    option: (view) => {
      const tier: Tier = view.choices["tier"] === "buffers" ? "buffers" : "os";
      const { visible, trials } = view.state;
      return heatOption(view, {
        rows: visible, rowHeight: ROW_HEIGHT, names: 140, fontSize: 11, columns: null,
        panels: INSTANTS.map((instant) => ({ id: instant, strips: visible.map((name) => stripOf(trials, name, relation.relation, instant, tier)) })),
        told: (instant, name, piece, share, pieces) => [`${name}, ${instant}`, `${percent(share)} of the piece from ${percent(piece / pieces)} to ${percent((piece + 1) / pieces)}`],
      });
    },
    numbers: (view) => sharesTable(view.state, [relation]),
  }));
}

export function sharesTable({ trials, visible }: WarmersStage, relations: RelationResidency[]): HTMLElement {
  const columns = [["os", "before"], ["os", "after"], ["buffers", "before"], ["buffers", "after"]] as const;
  const rows = relations.flatMap(({ relation, total_bytes: size }) => visible.map((name) => [
    relation, bytes(size), name,
    ...columns.map(([tier, instant]) => {
      const strip = stripOf(trials, name, relation, instant, tier);
      return strip.length === 0 ? "–" : percent(mean(strip));
    }),
  ]));
  return table("Resident shares of relations", ["relation", "size", "strategy", "page cache before", "page cache after", "shared_buffers before", "shared_buffers after"], rows, { texts: [0, 2] });
}

/** Share from which a relation counts as fully resident. */
const WHOLE = 0.99;

type Course = RelationResidency & { course: ResidencyCourse };

export const coursesOf = ({ trial }: TrialData): Course[] => (trial.warming?.residency ?? []).filter((one): one is Course => Boolean(one.course));

const stepOf = (courses: Course[]): number => courses[0]?.course.step_seconds ?? 1;

export const relationCourses: ChartPlan<TrialStage> = {
  id: "relations",
  title: "When each relation was in the page cache",
  explanation: "Resident share of each relation from the start of the trial, largest relation on top.",
  unit: ({ state: { shown } }) => {
    const step = stepOf(coursesOf(shown));
    return step === 1 ? "each column is a second" : `columns are ${step} seconds apart`;
  },
  height: ({ state: { shown } }) => coursesOf(shown).length * 24 + 80,
  option: (view) => {
    const courses = coursesOf(view.state.shown);
    const ends = (courses[0]?.course.shares ?? []).map((_, place) => (place + 1) * stepOf(courses));
    return heatOption(view, {
      rows: courses.map(({ relation }) => relation), rowHeight: 24, names: view.isNarrow ? 110 : 200, fontSize: 12, columns: ends.map((end) => `${end} s`),
      panels: [{ id: "relations", strips: courses.map(({ course }) => course.shares) }],
      told: (_, relation, place, share) => [relation, `${percent(share)} resident after ${seconds(ends[place] ?? 0)}`],
    });
  },
  numbers: ({ state: { shown } }) => {
    const told = ({ course: { shares, step_seconds: step } }: Course, share: number): string => {
      const place = shares.findIndex((one) => one >= share);
      return place < 0 ? "not within the trial" : seconds((place + 1) * step);
    };
    const rows = coursesOf(shown).map((row) => [`${row.relation} (${row.kind})`, bytes(row.total_bytes), told(row, 0.5), told(row, WHOLE), percent(row.course.shares.at(-1) ?? 0)]);
    return table("Relations in the page cache", ["relation", "size", "50 % after", `${percent(WHOLE)} after`, "at the end"], rows);
  },
};
