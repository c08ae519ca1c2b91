import { linkTo, readAddress, remember } from "./address";
import { type Appearance, Stage } from "./appearance";
import { chosenOf, type Metric, metricOf, metricsOf } from "./metrics";
import type { PointSummary, StudyData } from "../generated/record";

export interface Axis {
  name: string;
  values: string[];
}

/** `facet` is the axis of the small multiples; empty for none. */
type Place = "x" | "y" | "facet";

/** Axes of charts and tables. Other axes are fixed at a value. */
interface Layout extends Record<Place, string> {
  fixed: Record<string, string>;
}

/** More panels would be too small. */
export const MOST_FACETS = 12;

export const axesOf = ({ sweep, points }: StudyData): Axis[] =>
  sweep.varied.map((name, index) => ({ name, values: inOrder([...new Set(points.map((point) => point.values[index] ?? ""))]) }));

const UNITS: Record<string, number> = {
  "": 1, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86_400, B: 1, kB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4,
};

/** PostgreSQL's units: `512MB`, `30s`; `null` if not a number. */
function quantityOf(value: string): number | null {
  const found = /^\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$/.exec(value);
  const unit = UNITS[found?.[2] ?? "?"];
  return found && unit !== undefined ? Number(found[1]) * unit : null;
}

/** Sorts quantities; other values keep the study's order. */
function inOrder(values: string[]): string[] {
  const quantities = new Map(values.map((value) => [value, value === "unlimited" ? Number.POSITIVE_INFINITY : quantityOf(value)]));
  if ([...quantities.values()].some((one) => one === null)) return values;
  return [...values].sort((a, b) => (quantities.get(a) ?? 0) - (quantities.get(b) ?? 0));
}

function defaultLayout(axes: Axis[]): Record<Place, string> {
  const names = axes.map((axis) => axis.name);
  const x = names.includes("clients") ? "clients" : (names[0] ?? "");
  const rest = names.filter((name) => name !== x);
  const y = rest.includes("scale") ? "scale" : (rest[0] ?? "");
  const facet = axes.find(({ name, values }) => name !== x && name !== y && values.length <= MOST_FACETS)?.name ?? "";
  return { x, y, facet };
}

function completed(layout: Layout, axes: Axis[]): Layout {
  const isAxis = (name: string): boolean => axes.some((axis) => axis.name === name);
  const [x, y, facet] = [layout.x, layout.y, layout.facet].map((name) => (isAxis(name) ? name : "")) as [string, string, string];
  const still = axes.filter((axis) => ![x, y, facet].includes(axis.name));
  const fixed = Object.fromEntries(
    still.map(({ name, values }) => [name, values.includes(layout.fixed[name] ?? "") ? (layout.fixed[name] as string) : (values[0] ?? "")]),
  );
  return { x, y: y === x ? "" : y, facet: facet === x || facet === y ? "" : facet, fixed };
}

/** A single empty value for a missing axis. */
export const valuesOf = (axes: Axis[], name: string): string[] => axes.find((axis) => axis.name === name)?.values ?? [""];

/**
 * Kinds for which Finding::is_refusing (finding.rs) holds: the trial measured something other than requested. A
 * MeasurementVerdict has no flag for it.
 */
const REFUSED = ["start_not_as_asked", "not_in_force", "strategy_failed", "generator_saturated", "fits_cache"];

export const isRefused = (kind: string): boolean => REFUSED.includes(kind);

export const againstOf = ({ verdicts, warnings }: PointSummary): { text: string; trials: number }[] =>
  [...verdicts.map(({ sentence, trials }) => ({ text: sentence, trials })), ...Object.entries(warnings).map(([text, trials]) => ({ text, trials }))];

/** Worst reason why a point's figures are doubtful. */
export function doubtOf(point: PointSummary | null): "failed" | "missing" | "refused" | "doubtful" | null {
  if (point === null) return "missing";
  if (metricsOf({ points: [point] }).length === 0) return "failed";
  if (point.verdicts.some(({ is_refusing: isRefusing }) => isRefusing)) return "refused";
  return againstOf(point).length > 0 || point.failures > 0 ? "doubtful" : null;
}

const keyOf = (values: (string | undefined)[]): string => JSON.stringify(values);

export class StudyState extends Stage {
  readonly axes: Axis[];
  metric: Metric;
  layout: Layout;
  readonly #byValues: Map<string, PointSummary>;
  readonly #firstRepeats: Map<number, number>;

  constructor(readonly study: StudyData, appearance: Appearance) {
    super(appearance);
    this.axes = axesOf(study);
    this.#byValues = new Map(study.points.map((point) => [keyOf(point.values), point]));
    this.#firstRepeats = new Map([...study.trials].sort((a, b) => b.repeat - a.repeat).map((trial) => [trial.number, trial.repeat]));
    const { query } = readAddress();
    this.metric = chosenOf(study, query.get("metric"));
    const standard = defaultLayout(this.axes);
    const fixed = Object.fromEntries(this.axes.flatMap(({ name }) => (query.has(`at.${name}`) ? [[name, query.get(`at.${name}`) ?? ""]] : [])));
    this.layout = completed({ x: query.get("x") ?? standard.x, y: query.get("y") ?? standard.y, facet: query.get("by") ?? standard.facet, fixed }, this.axes);
  }

  pointAt(x: string, y: string, facet: string): PointSummary | null {
    const { layout, study } = this;
    const values: Record<string, string> = { ...layout.fixed, [layout.x]: x, [layout.y]: y, [layout.facet]: facet };
    return this.#byValues.get(keyOf(study.sweep.varied.map((axis) => values[axis]))) ?? null;
  }

  linkToPoint(number: number): string {
    return linkTo(["study", this.study.sweep.id, "trial", number, this.#firstRepeats.get(number) ?? 1]);
  }

  setMetric(name: string): void {
    this.metric = metricOf(name);
    remember({ metric: name });
    this.tell();
  }

  /** Puts an axis at `place`, in exchange for the axis that was there. */
  setAxis(place: Place, name: string): void {
    const changed = { ...this.layout };
    for (const other of ["x", "y", "facet"] as const) if (changed[other] === name && name !== "") changed[other] = this.layout[place];
    this.#change(completed({ ...changed, [place]: name }, this.axes));
  }

  setFixed(axis: string, value: string): void {
    this.#change({ ...this.layout, fixed: { ...this.layout.fixed, [axis]: value } });
  }

  #change(layout: Layout): void {
    this.layout = layout;
    // "-" records a removed axis, which must not return as a default.
    remember({ x: layout.x || "-", y: layout.y || "-", by: layout.facet || "-", ...Object.fromEntries(this.axes.map(({ name }) => [`at.${name}`, layout.fixed[name] ?? ""])) });
    this.tell();
  }
}
