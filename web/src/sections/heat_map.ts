// The heat map: two axes, a table a small multiple, whose cells are links to the trials.

import { element } from "../element";
import { heatColor, inkOn } from "../colours";
import { besideOf, endsOf, intervalText, metricsOf, rangeText } from "../metrics";
import { againstOf, doubtOf, valuesOf } from "../pivot";
import type { PointSummary } from "../../generated/record";
import type { StudyState } from "../state";

export function heatMap(state: StudyState): HTMLElement {
  const panels = element("div", { class: "heat-panels" });
  const scale = element("p", { class: "heat-scale soft" });
  const bubble = element("div", { class: "bubble pointer", role: "tooltip", id: "heat-bubble", hidden: true });
  const draw = (): void => {
    const shade = shadeOf(state);
    panels.replaceChildren(...valuesOf(state.axes, state.layout.facet).map((facet) => panelOf(state, facet, shade, bubble)));
    scale.replaceChildren(...scaleOf(state, shade));
    bubble.hidden = true;
  };
  state.subscribe(draw);
  draw();
  return element(
    "figure",
    { id: "heat", class: "heat" },
    element("figcaption", {}, element("h3", {}, "Two axes at a glance"), element("p", {}, "Each cell is the median of its trials; point at it, or move to it with the arrow keys, for the spread and what speaks against it. Below it stands the interval of the median, or with fewer than three trials their span. A hatched cell failed, is missing, or measured something else than was asked for; a folded corner is a lesser doubt. It opens its trials.")),
    scale, panels, bubble,
  );
}

/** Where on the scale a value is, 0 to 1. */
interface Shade {
  low: number;
  high: number;
  of: (value: number) => number;
}

function shadeOf({ study, metric }: StudyState): Shade {
  const values = study.points.flatMap((point) => metric.of(point)?.median ?? []).filter(Number.isFinite);
  const high = Math.max(...values);
  // Never less than from half to whole: all colours of the scale between two equals would make a difference of them.
  const low = Math.min(...values, high / 2);
  const on = metric.isLog ? (value: number) => Math.log(Math.max(1, value)) : (value: number) => value;
  const width = on(high) - on(low);
  return { low, high, of: (value) => (Number.isFinite(value) ? (width > 0 ? (on(value) - on(low)) / width : 0.5) : 1) };
}

function scaleOf({ theme, metric }: StudyState, shade: Shade): (Node | string)[] {
  if (!Number.isFinite(shade.high)) return ["No trial has this figure."];
  const bar = element("span", { class: "heat-bar", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map((share) => heatColor(share, theme)).join(", ")})`;
  return [`${metric.unit}: ${metric.render(shade.low)} `, bar, ` ${metric.render(shade.high)}${metric.isLog ? ", on a logarithmic scale" : ""}`];
}

function panelOf(state: StudyState, facet: string, shade: Shade, bubble: HTMLElement): HTMLElement {
  const { layout, axes, metric } = state;
  const [xs, ys] = [valuesOf(axes, layout.x), valuesOf(axes, layout.y)];
  const title = layout.facet === "" ? "" : `${layout.facet} ${facet}`;
  const corner = [layout.y, layout.x].filter((name) => name !== "").join(" \\ ");
  const head = element("tr", {}, element("th", { scope: "col", class: "corner" }, corner), ...xs.map((x) => element("th", { scope: "col" }, x)));
  const rows = ys.map((y) => element("tr", {}, element("th", { scope: "row" }, y === "" ? metric.label : y), ...xs.map((x) => cellOf(state, state.points.at(layout, x, y, facet), shade, bubble))));
  const name = `${metric.unit}${title === "" ? "" : `, ${title}`}`;
  const cells = rows.map((row) => [...row.querySelectorAll<HTMLElement>("td")].map((cell) => cell.querySelector("a")));
  for (const [place, link] of cells.flat().filter((one) => one !== null).entries()) link.tabIndex = place === 0 ? 0 : -1;
  const body = element("tbody", { keydown: (event) => move(event as KeyboardEvent, cells) }, ...rows);
  return element(
    "div",
    { class: "heat-panel" },
    title !== "" && element("h4", {}, title),
    element("div", { class: "heat-scroll", tabindex: 0, role: "region", "aria-label": name },
      element("table", {}, element("caption", { class: "unseen" }, name), element("thead", {}, head), body)),
  );
}

const STEPS: Record<string, [down: number, right: number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The arrow keys go from cell to cell, so that Tab passes a table in one step; points that are missing are passed over. */
function move(event: KeyboardEvent, cells: (HTMLAnchorElement | null)[][]): void {
  const step = STEPS[event.key];
  const row = cells.findIndex((links) => links.some((link) => link !== null && link === event.target));
  if (!step || row < 0) return;
  let [down, right] = [row, (cells[row] ?? []).findIndex((link) => link === event.target)];
  for (;;) {
    [down, right] = [down + step[0], right + step[1]];
    const link = cells[down]?.[right];
    if (link === undefined) break;
    if (link === null) continue;
    (event.target as HTMLElement).tabIndex = -1;
    link.tabIndex = 0;
    link.focus();
    break;
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
  const text = range === null ? "–" : metric.renderAxis(range.median);
  const around = range === null ? "" : rangeText({ ...range, ...endsOf(range) }, metric.renderAxis);
  const against = doubt === null ? "" : `; ${againstOf(point).length} against it`;
  const beside = besideOf(metric, point);
  const figures = range === null ? "no figure" : [metric.render(range.median), beside, rangeText(range, metric.render) || "no spread"].filter((one) => one !== "").join(", ");
  const told = `${point.label}: ${figures}, ${point.trials} trials${against}`;
  const small = [around, beside].filter((one) => one !== "").map((one) => element("span", { class: "around" }, one));
  const link = element("a", { href: state.linkToPoint(point.number), "aria-label": told }, text, ...small);
  const show = (): void => showBubble(state, bubble, cell, point);
  const hide = (): void => { bubble.hidden = true; };
  cell.addEventListener("mouseenter", show);
  cell.addEventListener("mouseleave", hide);
  link.addEventListener("focus", show);
  link.addEventListener("blur", hide);
  link.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  cell.append(link);
  return cell;
}

function showBubble(state: StudyState, bubble: HTMLElement, cell: HTMLElement, point: PointSummary): void {
  const rows = metricsOf(state.study).map((metric) => {
    const range = metric.of(point);
    return element("tr", {}, element("td", {}, metric.label), element("td", { class: "number" }, range === null ? "–" : metric.render(range.median)),
      element("td", { class: "number soft" }, range === null ? "" : rangeText(range, metric.render)));
  });
  const median = state.metric.of(point);
  const interval = median === null ? "" : intervalText(median, state.metric.render);
  const warnings = againstOf(point).map(({ text, trials }) => element("p", { class: "against" }, `${text} (${trials} of ${point.trials})`));
  bubble.replaceChildren(element("p", {}, `${point.label} · ${point.trials} trials`), element("table", {}, ...rows), ...(interval === "" ? [] : [element("p", {}, `${state.metric.label}: the median lies in ${interval}`)]), ...warnings);
  bubble.hidden = false;
  const [box, place] = [bubble.offsetParent?.getBoundingClientRect() ?? new DOMRect(), cell.getBoundingClientRect()];
  const left = Math.min(place.left - box.left, box.width - bubble.offsetWidth);
  bubble.style.left = `${Math.max(0, left)}px`;
  bubble.style.top = `${place.bottom - box.top + 6}px`;
}
