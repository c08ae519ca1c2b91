// Bars: one way to warm ÷ another, or ÷ the bound, from the line of equality on, with the interval of the median.

import type { CustomSeriesOption, CustomSeriesRenderItemReturn, EChartsOption, LineSeriesOption } from "echarts";
import type { Backdrop } from "../appearance";
import { table } from "../element";
import { ratioText } from "../format";
import type { SeriesStyle } from "../palette";
import type { Limits, Ratio } from "../../generated/record";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";

const ROW_HEIGHT = 34;
const NARROW_ROW_HEIGHT = 48;

/** Characters of a name that has lines of its own: all others keep the width that they need. */
const LONG_NAME = 28;

const isLong = ({ name }: Row): boolean => name.length > LONG_NAME;

/** What is divided. */
interface Quantity {
  id: string;
  label: string;
  /** What stands at the line of equality. */
  to: string;
  find: (name: string) => Ratio | null;
}

interface Row {
  name: string;
  ratio: Ratio;
  style: SeriesStyle;
  opacity: number;
}

interface Ratios<S> {
  title?: string;
  /** What is divided by what. */
  about?: string;
  /** Within this of equality lie equal sides too. */
  floor?: number | null;
  names: string[];
  quantities: Quantity[];
  /** How it is drawn; `null`: it is hidden. */
  style: (state: S, name: string) => { style: SeriesStyle; opacity: number } | null;
}

/** `null` when there are none. */
export function ratiosPlan<S extends Backdrop>({ title = "Ratios within the rounds", about = "Each is divided by the other one of the same round.", floor = null, names, quantities: all, style }: Ratios<S>): ChartPlan<S> | null {
  const quantities = all.filter((quantity) => names.some((name) => quantity.find(name) !== null));
  const first = quantities[0];
  if (!first) return null;
  const chosen = (view: View<S>): Quantity => quantities.find((one) => one.id === view.choices["of"]) ?? first;
  /** The first one stands on top; the category axis counts from below. */
  const rowsOf = (view: View<S>): Row[] =>
    names.flatMap((name) => {
      const [ratio, drawn] = [chosen(view).find(name), style(view.state, name)];
      return ratio === null || drawn === null ? [] : [{ name, ratio, ...drawn }];
    }).reverse();
  return {
    id: "ratios",
    title,
    explanation: explain(about, names.map((name) => first.find(name)).find((one) => one !== null)),
    unit: (view) => `${chosen(view).label}; of times less is sooner, of all else more is better`,
    controls: quantities.length === 1 ? [] : [{ name: "of", label: "Ratio", options: quantities.map(({ id, label }) => [id, label] as [string, string]) }],
    height: (view) => rowsOf(view).length * (view.isNarrow ? NARROW_ROW_HEIGHT + (rowsOf(view).some(isLong) ? 14 : 0) : ROW_HEIGHT) + 60,
    option: (view) => option(view, rowsOf(view), chosen(view), floor),
    numbers: () => {
      const columns = ["strategy", ...quantities.map(({ label }) => `${label} (×)`)].map((title, index) => ({ title, isNumber: index > 0 }));
      return table(title, columns, names.map((name) => [name, ...quantities.map((quantity) => ratioText(quantity.find(name)))]));
    },
  };
}

function explain(about: string, known: Ratio | null | undefined): string {
  const base = `${about} The bar is the median, drawn from equality on.`;
  const open = "Open ends: a time was not reached within the trial.";
  if (!known?.interval) return `${base} ${open} With three rounds or more it has an interval.`;
  return `${base} The whisker is where the true median is in ${Math.round(known.coverage * 100)} % of cases (${known.pairs} rounds). ${open}`;
}

function option(view: View<Backdrop>, rows: Row[], quantity: Quantity, floor: number | null): EChartsOption {
  const { theme } = view.state;
  const ends = rows.flatMap(({ ratio }) => [ratio.median, ratio.interval ?? ratio.median]).flatMap(finite).concat(floor === null ? [] : [1 / floor, floor]);
  return {
    textStyle: textStyle(theme),
    grid: { left: 8, right: view.isNarrow ? 16 : 150, top: 24, bottom: 8, containLabel: true },
    xAxis: {
      type: "log",
      logBase: 2,
      // Whole powers, with a little room beyond what is drawn.
      min: 2 ** Math.floor(Math.log2(Math.min(1, ...ends) / 1.1)),
      max: 2 ** Math.ceil(Math.log2(Math.max(1, ...ends) * 1.1)),
      axisLabel: { color: theme.soft, formatter: (value: number) => String(Number(value.toPrecision(2))), hideOverlap: true },
      splitLine: { lineStyle: { color: theme.rule } },
    },
    yAxis: {
      type: "category",
      data: rows.map((row) => row.name),
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { show: !view.isNarrow, color: theme.ink, fontSize: 13, interval: 0, ...(rows.some(isLong) ? { width: 240, overflow: "break" as const, lineHeight: 14 } : {}) },
    },
    series: [bars(view, rows), equality(view, quantity, floor)],
  };
}

const finite = ({ at_least: low, at_most: high }: Limits): number[] => [low, high].filter((one): one is number => one !== null && one > 0);

/** Where both are the same: the bound, or the other strategy. */
function equality(view: View<Backdrop>, quantity: Quantity, floor: number | null): LineSeriesOption {
  const { theme } = view.state;
  const label = { formatter: quantity.to, color: theme.ink, fontSize: 11, position: "end" as const, distance: 4 };
  const lineStyle = { color: theme.ink, type: [4, 3], width: 1 };
  return { type: "line", id: "equality", data: [], markLine: { silent: true, symbol: "none", animation: false, data: [{ xAxis: 1, lineStyle, label }] },
    ...(floor === null ? {} : { markArea: { silent: true, animation: false, itemStyle: { color: theme.soft, opacity: 0.16 }, data: [[{ xAxis: 1 / floor }, { xAxis: floor }]] } }) };
}

type Shape = Exclude<CustomSeriesRenderItemReturn, undefined | null>;

function bars(view: View<Backdrop>, rows: Row[]): CustomSeriesOption {
  const { state } = view;
  return {
    type: "custom",
    id: "bars",
    data: rows.map((_, row) => [1, row]),
    silent: true,
    z: 3,
    renderItem: (params, api) => {
      const row = rows[params.dataIndex];
      if (!row) return undefined;
      const area = params.coordSys as unknown as { x: number; width: number };
      const [left, right] = [area.x, area.x + area.width];
      const y = (api.coord([1, params.dataIndex]) as [number, number])[1];
      const at = (value: number | null): number => {
        if (value === null) return right;
        return value <= 0 ? left : Math.max(left, Math.min(right, (api.coord([value, params.dataIndex]) as [number, number])[0]));
      };
      const { median, interval } = row.ratio;
      const children = [
        ...bar(median, at, y, row.style.color, state.theme.paper, row.opacity),
        ...(interval === null ? [] : whisker(interval, at, y, state.theme.ink)),
        text(view, row, y, Math.max(at(1), ...[median, interval ?? median].map((one) => at(one.at_most))), left),
      ];
      return { type: "group", children };
    },
  };
}

/** From equality to the median; only its edge where the median is not known, but on which side it is. */
function bar(median: Limits, at: (value: number | null) => number, y: number, color: string, paper: string, opacity: number): Shape[] {
  const { at_least: low, at_most: high } = median;
  const isKnown = low === high;
  if (low <= 0 && high === null) return [];
  const end = at(isKnown || high === null ? low : high);
  const shape = { x: Math.min(at(1), end), y: y - 7, width: Math.max(2, Math.abs(end - at(1))), height: 14 };
  const style = isKnown ? { fill: color, opacity } : { fill: paper, stroke: color, lineWidth: 1.4, lineDash: [4, 3], opacity };
  return [{ type: "rect", shape, style }];
}

/** A line with an end at each side that is known. */
function whisker(interval: Limits, at: (value: number | null) => number, y: number, ink: string): Shape[] {
  const [low, high] = [at(interval.at_least), at(interval.at_most)];
  if (interval.at_least <= 0 && interval.at_most === null) return [];
  const style = { stroke: ink, lineWidth: 1.3 };
  const stroke = (x1: number, y1: number, x2: number, y2: number): Shape => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
  const ends = [...(interval.at_least > 0 ? [low] : []), ...(interval.at_most === null ? [] : [high])];
  return [stroke(low, y, high, y), ...ends.map((x) => stroke(x, y - 5, x, y + 5))];
}

function text(view: View<Backdrop>, row: Row, y: number, after: number, left: number): Shape {
  const { theme } = view.state;
  const figures = ratioText(row.ratio);
  const above = { text: `${row.name}${isLong(row) ? "\n" : "   "}${figures}`, x: left + 2, y: y - (isLong(row) ? 26 : 19), lineHeight: 14 };
  const place = view.isNarrow ? above : { text: figures, x: after + 10, y };
  const style = { ...place, fill: theme.ink, backgroundColor: theme.surround, padding: [3, 3], font: `12px ${textStyle(theme).fontFamily}`, verticalAlign: "middle" as const };
  return { type: "text", style };
}

