import { pointerList, type PointerRow } from "../charts/figure";
import { element, type Option, paragraph, select } from "../element";
import { besideOf, endsOf, intervalText, metricsOf, rangeText, renderMedian } from "../metrics";
import { heatColor, inkOn } from "../palette";
import { againstOf, doubtOf, MOST_FACETS, type StudyState, valuesOf } from "../pivot";
import type { PointSummary } from "../../generated/record";

export function pivotBar(state: StudyState): HTMLElement {
  const box = element("div", { class: "pivot", role: "group", "aria-label": "Figure and axes" });
  const draw = (): void => {
    const focused = document.activeElement?.id ?? "";
    box.replaceChildren(...choices(state));
    if (focused.startsWith("pivot-")) document.getElementById(focused)?.focus();
  };
  state.subscribe(draw);
  draw();
  return box;
}

function choices(state: StudyState): HTMLElement[] {
  const { axes, layout } = state;
  const namesBut = (most: number, ...others: string[]): Option[] => axes.filter(({ name, values }) => values.length <= most && !others.includes(name)).map(({ name }) => [name, name]);
  const none: Option = ["", "none"];
  const any = Number.POSITIVE_INFINITY;
  return [
    select("pivot-metric", "figure", metricsOf(state.study).map(({ name, label }) => [name, label]), state.metric.name, (name) => state.setMetric(name)),
    ...[
      select("pivot-x", "columns", namesBut(any), layout.x, (name) => state.setAxis("x", name)),
      select("pivot-y", "rows and colours", [none, ...namesBut(any, layout.x)], layout.y, (name) => state.setAxis("y", name)),
      select("pivot-facet", "small multiples", [none, ...namesBut(MOST_FACETS, layout.x, layout.y)], layout.facet, (name) => state.setAxis("facet", name)),
    ].slice(0, axes.length),
    ...Object.entries(layout.fixed).map(([name, value]) => select(`pivot-at-${name}`, name, valuesOf(axes, name).map((one) => [one, one]), value, (chosen) => state.setFixed(name, chosen))),
  ];
}

export function heatMap(state: StudyState): HTMLElement {
  const panels = element("div", { class: "heat-panels" });
  const scale = element("p", { class: "heat-scale soft" });
  const bubble = element("div", { class: "bubble", role: "tooltip", id: "heat-bubble", hidden: true });
  const draw = (): void => {
    const shade = shadeOf(state);
    panels.replaceChildren(...valuesOf(state.axes, state.layout.facet).map((facet) => panelOf(state, facet, shade, bubble)));
    scale.replaceChildren(...scaleOf(state, shade));
    bubble.hidden = true;
  };
  state.subscribe(draw);
  draw();
  const explanation = "Each cell shows the median of its trials, and below it the median’s interval (with fewer than three trials, their range). Point at a cell, or move to it with the arrow keys, for its spread and its number of verdicts (doubts about its figures). A hatched cell failed, is missing, or was not measured as requested; a folded corner marks any other verdict. A click opens its trials.";
  return element("figure", { id: "heat", class: "heat" }, element("figcaption", {}, element("h3", {}, "Two axes at a glance"), element("p", {}, explanation)), scale, panels, bubble);
}

type Shade = ReturnType<typeof shadeOf>;

function shadeOf({ study, metric }: StudyState) {
  const values = study.points.flatMap((point) => metric.of(point)?.median ?? []).filter(Number.isFinite);
  const high = Math.max(...values);
  // The scale spans at least a factor of two, so colours do not exaggerate small differences.
  const low = Math.min(...values, high / 2);
  const on = metric.isLog ? (value: number) => Math.log(Math.max(1, value)) : (value: number) => value;
  const width = on(high) - on(low);
  return { low, high, of: (value: number): number => (Number.isFinite(value) ? (width > 0 ? (on(value) - on(low)) / width : 0.5) : 1) };
}

function scaleOf({ theme, metric }: StudyState, { low, high }: Shade): (Node | string)[] {
  if (!Number.isFinite(high)) return ["No trial has this figure."];
  const bar = element("span", { class: "heat-bar", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map((share) => heatColor(share, theme)).join(", ")})`;
  return [`${metric.caption}: ${metric.render(low)} `, bar, ` ${metric.render(high)}${metric.isLog ? ", on a logarithmic scale" : ""}`];
}

function panelOf(state: StudyState, facet: string, shade: Shade, bubble: HTMLElement): HTMLElement {
  const { layout, axes, metric } = state;
  const [xs, ys] = [valuesOf(axes, layout.x), valuesOf(axes, layout.y)];
  const title = layout.facet === "" ? "" : `${layout.facet} ${facet}`;
  const corner = [layout.y, layout.x].filter((name) => name !== "").join(" \\ ");
  const name = `${metric.caption}${title === "" ? "" : `, ${title}`}`;
  const cells = ys.map((y) => xs.map((x) => cellOf(state, state.pointAt(x, y, facet), shade, bubble)));
  const links = cells.map((row) => row.map((cell) => cell.querySelector("a")));
  for (const [place, link] of links.flat().filter((one) => one !== null).entries()) link.tabIndex = place === 0 ? 0 : -1;
  const rows = ys.map((y, row) => element("tr", {}, element("th", { scope: "row" }, y === "" ? metric.label : y), ...cells[row] ?? []));
  return element("div", { class: "heat-panel" },
    title !== "" && element("h4", {}, title),
    element("div", { class: "heat-scroll", tabindex: 0, role: "region", "aria-label": name },
      element("table", {},
        element("caption", { class: "unseen" }, name),
        element("thead", {}, element("tr", {}, element("th", { scope: "col", class: "corner" }, corner), ...xs.map((x) => element("th", { scope: "col" }, x)))),
        element("tbody", { keydown: (event) => move(event as KeyboardEvent, links) }, ...rows))));
}

const STEPS: Record<string, [down: number, right: number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Arrow keys move between cells and skip missing points, so Tab passes the table in one step. */
function move(event: KeyboardEvent, links: (HTMLAnchorElement | null)[][]): void {
  const step = STEPS[event.key];
  let down = links.findIndex((row) => row.some((link) => link !== null && link === event.target));
  if (!step || down < 0) return;
  let right = (links[down] ?? []).findIndex((link) => link === event.target);
  let link: HTMLAnchorElement | null | undefined = null;
  while (link === null) {
    [down, right] = [down + step[0], right + step[1]];
    link = links[down]?.[right];
  }
  if (link !== undefined) {
    (event.target as HTMLElement).tabIndex = -1;
    link.tabIndex = 0;
    link.focus();
  }
  event.preventDefault();
}

function cellOf(state: StudyState, point: PointSummary | null, shade: Shade, bubble: HTMLElement): HTMLElement {
  const { metric, theme } = state;
  const doubt = doubtOf(point);
  if (point === null) return element("td", { class: "missing hatched" }, element("span", { class: "unseen" }, "not measured"));
  const range = metric.of(point);
  const cell = element("td", { class: doubt === null ? "" : doubt === "doubtful" ? doubt : `${doubt} hatched` });
  if (range !== null) {
    cell.style.backgroundColor = heatColor(shade.of(range.median), theme);
    cell.style.color = inkOn(cell.style.backgroundColor);
  }
  const around = rangeText(range && endsOf(range), metric.renderAxis);
  const beside = besideOf(metric, point);
  const figures = range === null ? "no figure" : [metric.render(range.median), beside, rangeText(range, metric.render) || "no spread"].filter((one) => one !== "").join(", ");
  const told = `${point.label}: ${figures}, ${point.trials} trials${doubt === null ? "" : `; verdicts: ${againstOf(point).length}`}`;
  const small = [around, beside].filter((one) => one !== "").map((one) => element("span", { class: "around" }, one));
  const show = (): void => showBubble(state, bubble, cell, point);
  const hide = (): void => { bubble.hidden = true; };
  cell.addEventListener("mouseenter", show);
  cell.addEventListener("mouseleave", hide);
  const leave = (event: Event): void => { if ((event as KeyboardEvent).key === "Escape") hide(); };
  cell.append(element("a", { href: state.linkToPoint(point.number), "aria-label": told, focus: show, blur: hide, keydown: leave }, renderMedian(metric, point, metric.renderAxis), ...small));
  return cell;
}

function showBubble({ study, metric: chosen }: StudyState, bubble: HTMLElement, cell: HTMLElement, point: PointSummary): void {
  const rows = metricsOf(study).map((metric): PointerRow => [null, metric.label, renderMedian(metric, point), rangeText(metric.of(point), metric.render)]);
  const interval = intervalText(chosen.of(point), chosen.render);
  const warnings = againstOf(point).map(({ text, trials }) => paragraph("against", `${text} (${trials} of ${point.trials})`));
  bubble.replaceChildren(pointerList([`${point.label} · ${point.trials} trials`], rows, interval === "" ? [] : [`${chosen.label}: the median lies in ${interval}`]), ...warnings);
  bubble.hidden = false;
  const [box, place] = [bubble.offsetParent?.getBoundingClientRect() ?? new DOMRect(), cell.getBoundingClientRect()];
  bubble.style.left = `${Math.max(0, Math.min(place.left - box.left, box.width - bubble.offsetWidth))}px`;
  bubble.style.top = `${place.bottom - box.top + 6}px`;
}
