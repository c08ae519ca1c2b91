import type { CustomSeriesOption, CustomSeriesRenderItemReturn, EChartsOption } from "echarts";
import type { Stage } from "../appearance";
import { type Option, table } from "../element";
import { instant, ratio, ratioText, seconds, spread } from "../format";
import type { SeriesStyle } from "../palette";
import type { Limits, Ratio, Spread } from "../../generated/record";
import { categoryOf, type ChartPlan, fontFamily, niceAbove, ruleOf, rules, valuesOn, type View } from "./figure";

interface Bar {
  name: string;
  style: SeriesStyle;
  opacity?: number;
  isSubject?: boolean;
  /** Positions on the axis. The part up to `before` is paler. */
  from: number;
  before?: number;
  end: number;
  /** `hatched` if `end` is unknown, `edge` if `end` is only a limit. */
  drawn: "filled" | "hatched" | "edge";
  /** `null` is an unknown end. */
  whisker: { low: number | null; high: number | null };
  figures: string;
}

interface Bars {
  bars: Bar[];
  axis: object;
  renderAxis: (value: number) => string;
  rule: { at: number; label: string } | null;
  /** Noise floor: ratio (≥ 1) up to which repeated measurements differ. */
  floor?: number | null;
}

const ROW_HEIGHT = 34;
const NARROW_ROW_HEIGHT = 48;

/** Longer names (in characters) get a line of their own. */
const LONG_NAME = 28;
const isLong = ({ name }: Bar): boolean => name.length > LONG_NAME;

/** On a narrow page, the names stand above the bars. */
const drawing = <S extends Stage>(of: (view: View<S>) => Bars): Pick<ChartPlan<S>, "height" | "option"> => ({
  height: (view) => {
    const { bars } = of(view);
    return bars.length * (view.isNarrow ? NARROW_ROW_HEIGHT + (bars.some(isLong) ? 14 : 0) : ROW_HEIGHT) + 60;
  },
  option: (view) => optionOf(view, of(view)),
});

function optionOf({ theme, isNarrow }: View, { bars: all, axis, renderAxis, rule, floor = null }: Bars): EChartsOption {
  // The category axis starts at the bottom.
  const bars = [...all].reverse();
  const subject = bars.find((one) => one.isSubject);
  const series = (id: string, z: number, shapes: (bar: Bar, y: number, at: Place) => Shape[]): CustomSeriesOption => ({
    type: "custom", id, z, silent: true, data: bars.map(({ end }, row) => [end, row]),
    renderItem: ({ dataIndex: row, coordSys }, api) => {
      const { x: left, width } = coordSys as unknown as { x: number; width: number };
      const at: Place = (value, end) =>
        value === null ? (end === "left" ? left : left + width) : Math.max(left, Math.min(left + width, (api.coord([value, row]) as [number, number])[0]));
      const [bar, [, y]] = [bars[row], api.coord([1, row]) as [number, number]];
      return bar && { type: "group", children: shapes(bar, y, at) };
    },
  });
  const around = floor === null ? [] : [[{ xAxis: 1 / floor }, { xAxis: floor }] as [object, object]];
  const at = rule === null ? [] : [ruleOf(theme, true, { xAxis: rule.at }, rule.label, { position: "end", distance: 4 })];
  return {
    grid: { left: 8, right: isNarrow ? 16 : 150, top: 24, bottom: 8, containLabel: true },
    xAxis: { ...valuesOn(theme, renderAxis), ...axis },
    yAxis: {
      ...categoryOf(theme, bars.map(({ name }) => name)),
      axisLabel: {
        show: !isNarrow, color: theme.ink, fontSize: 13, interval: 0, ...(bars.some(isLong) ? { width: 240, overflow: "break" as const, lineHeight: 14 } : {}),
        formatter: (name: string) => (name === subject?.name ? `{subject|${name}}` : name), rich: { subject: { fontWeight: 700, fontSize: 13, color: subject?.style.color ?? theme.ink } },
      },
    },
    series: [
      series("bars", 2, (bar, y, at) => barOf(bar, y, (value) => at(value, "left"), theme.paper)),
      series("labels", 4, (bar, y, at) => {
        const { low, high } = bar.whisker;
        const text = isNarrow
          ? { text: `${bar.name}${isLong(bar) ? "\n" : "   "}${bar.figures}`, x: at(null, "left") + 2, y: y - (isLong(bar) ? 26 : 19), lineHeight: 14 }
          : { text: bar.figures, x: Math.max(at(bar.from, "left"), at(bar.end, "left"), at(high, low === null ? "left" : "right")) + 10, y };
        const style = { ...text, fill: theme.ink, backgroundColor: theme.surround, padding: [3, 3], font: `12px ${fontFamily()}`, verticalAlign: "middle" as const };
        return [...whiskerOf(bar.whisker, y, at, theme.ink), { type: "text", style }];
      }),
      { type: "line", id: "rule", data: [], markLine: { ...rules(at), z: 3 }, markArea: { silent: true, animation: false, itemStyle: { color: theme.soft, opacity: 0.16 }, data: around } },
    ],
  };
}

type Shape = Exclude<CustomSeriesRenderItemReturn, undefined | null>;

/** An unknown value is at the axis's `end`. */
type Place = (value: number | null, end: "left" | "right") => number;

const stroke = (x1: number, y1: number, x2: number, y2: number, style: object): Shape => ({ type: "line", shape: { x1, y1, x2, y2 }, style });

function barOf({ from, before = from, end, drawn, style: { color }, opacity = 1 }: Bar, y: number, at: (value: number) => number, paper: string): Shape[] {
  if (drawn === "edge" && end === from) return [];
  const rect = (one: number, other: number, style: object): Shape => {
    const [left, right] = [at(one), at(other)].sort((a, b) => a - b) as [number, number];
    return { type: "rect", shape: { x: left, y: y - 7, width: Math.max(2, right - left), height: 14 }, style };
  };
  if (drawn === "filled") return [...(before === from ? [] : [rect(from, before, { fill: color, opacity: 0.45 * opacity })]), rect(before, end, { fill: color, opacity })];
  if (drawn === "edge") return [rect(from, end, { fill: paper, stroke: color, lineWidth: 1.4, lineDash: [4, 3], opacity })];
  const lines = Array.from({ length: Math.max(0, Math.floor((at(end) - at(from) - 14) / 9)) + 1 }, (_, place) => at(from) + 9 * place);
  return [rect(from, end, { fill: paper, stroke: color, lineWidth: 1, opacity }), ...lines.map((x) => stroke(x, y - 7, x + 14, y + 7, { stroke: color, lineWidth: 1.5, opacity }))];
}

function whiskerOf({ low, high }: Bar["whisker"], y: number, at: Place, ink: string): Shape[] {
  if (low === high) return [];
  const [style, left, right] = [{ stroke: ink, lineWidth: 1.3 }, at(low, "left"), at(high, "right")];
  const ends = [...(low === null ? [] : [left]), ...(high === null ? [] : [right])];
  return [stroke(left, y, right, y, style), ...ends.map((x) => stroke(x, y - 5, x, y + 5, style))];
}

export interface Time extends Pick<Bar, "name" | "before" | "style" | "opacity" | "isSubject"> {
  time: Spread;
  /** Time ÷ the disk's lower bound. */
  times: Spread | null;
  /** Lower limit in seconds, shown if `time.median` is `null`. */
  limit: number;
}

export function timesPlan<S extends Stage>(head: Pick<ChartPlan<S>, "id" | "title" | "explanation" | "unit">, of: (view: View<S>) => { times: Time[]; bound: number | null }): ChartPlan<S> {
  const quotient = ({ times, limit }: Time, bound: number | null): string | null => {
    if (bound === null || times === null) return null;
    return times.median === null ? `> ${ratio(limit / bound)}` : ratio(times.median);
  };
  return {
    ...head,
    ...drawing<S>((view) => {
      const { times, bound } = of(view);
      const ends = times.flatMap(({ time }) => [time.median, time.max]).filter((end) => end !== null);
      const last = ends.length > 0 ? niceAbove(1.05 * Math.max(...ends, bound ?? 0)) : Math.max(1, ...times.map(({ limit }) => limit));
      return {
        bars: times.map((one): Bar => {
          const { median, min, max } = one.time;
          const beside = quotient(one, bound);
          const figures = [median === null ? `> ${one.limit} s` : instant(median), ...(beside === null ? [] : [`${beside} ×`])].join("   ");
          const whisker = min === null ? { low: last, high: last } : { low: min, high: max };
          return { ...one, from: 0, end: median ?? last, drawn: median === null ? "hatched" : "filled", whisker, figures };
        }),
        axis: { type: "value", min: 0, max: last, splitNumber: view.isNarrow ? 4 : 8 },
        renderAxis: (value) => `${Number(value.toPrecision(3))} s`,
        rule: bound === null ? null : { at: bound, label: `bound ${seconds(bound)}` },
      };
    }),
    numbers: (view) => {
      const { times, bound } = of(view);
      const hasEarlier = times.some(({ before }) => before !== undefined);
      return table(head.title, ["strategy", "median", "earliest–latest", hasEarlier ? "warmer before the job" : "÷ bound (×)"], times.map((one) => {
        const { median, range } = spread(one.time, seconds, `${one.limit} s`);
        return [one.name, median, range ?? "–", (hasEarlier ? one.before !== undefined && seconds(one.before) : quotient(one, bound)) || "–"];
      }));
    },
  };
}

/** `to` labels the line at ratio 1. */
type Quantity = { id: string; to: string; find: (name: string) => Ratio | null };

interface Ratios {
  title: string;
  about: string;
  floor: number | null;
  names: string[];
  quantities: Quantity[];
  style: (name: string, isDark: boolean) => SeriesStyle;
}

/** Chart of ratios with bars from 1. `null` if no ratio is known. */
export function ratiosPlan<S extends Stage>({ title, about, floor, names, quantities: all, style }: Ratios): ChartPlan<S> | null {
  const quantities = all.filter((quantity) => names.some((name) => quantity.find(name) !== null));
  const first = quantities[0];
  if (!first) return null;
  const chosen = (view: View<S>): Quantity => quantities.find((one) => one.id === view.choices["of"]) ?? first;
  return {
    id: "ratios",
    title,
    explanation: explain(about, names.map((name) => first.find(name)).find((one) => one !== null)),
    unit: (view) => `${chosen(view).id}; lower is better for times, higher for other figures`,
    controls: quantities.length === 1 ? [] : [{ name: "of", label: "Ratio", options: quantities.map(({ id }): Option => [id, id]) }],
    ...drawing<S>((view) => {
      const found = names.map((name) => ({ name, ratio: chosen(view).find(name) })).filter((one): one is { name: string; ratio: Ratio } => one.ratio !== null);
      const limits = found.flatMap(({ ratio: { median, interval } }) => [median, interval ?? median]).flatMap(({ at_least: low, at_most: high }) => [low, high ?? 0]);
      const ends = [...limits.filter((end) => end > 0), ...(floor === null ? [] : [1 / floor, floor])];
      return {
        bars: found.map(({ name, ratio }): Bar => ({ name, style: style(name, view.theme.isDark), from: 1, ...ratioBar(ratio), figures: ratioText(ratio) })),
        axis: {
          type: "log", logBase: 2,
          min: 2 ** Math.floor(Math.log2(Math.min(1, ...ends) / 1.1)), max: 2 ** Math.ceil(Math.log2(Math.max(1, ...ends) * 1.1)),
        },
        renderAxis: (value) => String(Number(value.toPrecision(2))),
        rule: { at: 1, label: chosen(view).to },
        floor,
      };
    }),
    numbers: () => table(title, ["strategy", ...quantities.map(({ id }) => `${id} (×)`)], names.map((name) => [name, ...quantities.map((quantity) => ratioText(quantity.find(name)))])),
  };
}

/** An edge if the median is only known to be above or below a limit. */
function ratioBar({ median: { at_least: low, at_most: high }, interval }: Ratio): Pick<Bar, "end" | "drawn" | "whisker"> {
  const known = ({ at_least: least, at_most: most }: Limits): Bar["whisker"] => ({ low: least > 0 ? least : null, high: most });
  const end = low <= 0 && high === null ? 1 : low === high ? low : (high ?? low);
  return { end, drawn: low === high ? "filled" : "edge", whisker: interval === null ? { low: end, high: end } : known(interval) };
}

function explain(about: string, known: Ratio | null | undefined): string {
  const base = `${about} The bar is the median, drawn from 1.`;
  const open = "An open end means that a trial ended too early to measure the time.";
  if (!known?.interval) return `${base} ${open} Three or more rounds give an interval.`;
  return `${base} The whisker is the ${Math.round(known.coverage * 100)} % interval of the median (${known.pairs} rounds). ${open}`;
}
