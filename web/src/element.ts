// Builds elements. Text always becomes a text node, so names in the data cannot inject markup.

import { readAddress, remember } from "./address";
import type { SeriesStyle } from "./palette";

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

export function element<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

const svg = (tag: string, attributes: Attributes, ...children: Child[]): SVGElement =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function fill<T extends Element>(made: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const LONG_HEADING = 200;

export function heading(text: string): HTMLElement[] {
  const title = element("h1", { tabindex: -1 }, text);
  if (text.length <= LONG_HEADING) return [title];
  title.className = "cut";
  const more = "show the whole name";
  const unfold = element("button", { type: "button", class: "unfold", "aria-expanded": "false", click: () => {
    const isCut = title.classList.toggle("cut");
    unfold.setAttribute("aria-expanded", String(!isCut));
    unfold.textContent = isCut ? more : "show less of the name";
  } }, more);
  return [title, unfold];
}

export const section = (id: string, title: string, ...children: Child[]): HTMLElement =>
  element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...children);

export const part = (id: string | null, title: string, lead: string, ...children: Child[]): HTMLElement =>
  element("div", { id }, element("h3", {}, title), paragraph("lead", lead), ...children);

export const paragraph = (className: string, ...text: Child[]): HTMLElement => element("p", { class: className }, ...text);

/** Error that screen readers announce immediately. */
export const alarm = (error: unknown): HTMLElement =>
  element("p", { class: "against", role: "alert" }, error instanceof Error ? error.message : String(error));

/** `texts` are the columns of text; others hold right-aligned numbers. */
type TableOptions = { id?: string; className?: string; texts?: number[] };

/** The first cell of a row is its header. */
export function table(caption: string, titles: string[], rows: Child[][], { id, className = "", texts = [0] }: TableOptions = {}): HTMLElement {
  const cell = (place: number, head: "col" | "row" | null, content: Child): HTMLElement =>
    element(head === null ? "td" : "th", { scope: head, class: texts.includes(place) ? null : "number" }, content);
  const body = rows.map((cells) => element("tr", {}, ...cells.map((content, place) => cell(place, place === 0 ? "row" : null, content))));
  return element("div", { class: `scroll ${className}`.trim(), tabindex: 0, role: "region", "aria-label": caption, id },
    element("table", {},
      element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, ...titles.map((title, place) => cell(place, "col", title)))),
      element("tbody", {}, ...body)));
}

/** Longer tables are folded, so the page opens quickly. */
const MANY_ROWS = 200;

export const ofPoints = (points: number, make: () => HTMLElement): HTMLElement => (points > MANY_ROWS ? folded(`All ${points} points`, make) : make());

export function folded(summary: string, make: () => Node): HTMLElement {
  const box = element("details", { class: "numbers" }, element("summary", {}, summary));
  box.addEventListener("toggle", () => box.open && box.childElementCount === 1 && box.append(make()));
  return box;
}

export type Facts = [name: string, value: string][];

export function card(title: string, facts: Facts): HTMLElement {
  const list = facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return element("div", { class: "card" }, element("h3", {}, title), element("dl", {}, ...list));
}

export function figures(name: string, all: [label: string, value: string, note: string][]): HTMLElement {
  const boxes = all.map(([label, value, note]) => element("div", {}, element("dt", {}, label), element("dd", {}, value), note !== "" && element("dd", { class: "note" }, note)));
  return element("dl", { class: "figures", "aria-label": name }, ...boxes);
}

export const cell = (median: string, range: string | null, className = ""): HTMLElement =>
  element("span", { class: `cell ${className}`.trim() }, element("span", { class: "median" }, median), range !== null && range !== "" && element("span", { class: "range" }, range));

export const code = (text: string): HTMLElement => element("code", {}, text);

export type Option = [value: string, label: string];

export function select(id: string, label: string, options: Option[], chosen: string, choose: (value: string) => void): HTMLElement {
  const box = element("select", { id, change: () => choose(box.value) }, ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  return element("label", { class: "choice" }, element("span", {}, label), box);
}

export function swatch({ color, dash, symbol, width }: SeriesStyle): SVGElement {
  const line = { x1: 0, y1: 5, x2: 30, y2: 5, stroke: color, "stroke-width": Math.min(width, 2.4), "stroke-dasharray": dash.length > 0 ? dash.join(" ") : null };
  return svg("svg", { class: "swatch", viewBox: "0 0 30 10", width: 30, height: 10, "aria-hidden": "true" },
    svg("line", line), svg("path", { d: symbol.path, fill: color, transform: "translate(10 0)" }));
}

export const keys = (signs: [sign: Node, name: string][], before = "", after = ""): HTMLElement =>
  paragraph("keys", before !== "" && element("span", { class: "soft" }, before), ...signs.map(([sign, name]) => element("span", { class: "key" }, sign, name)),
    after !== "" && element("span", { class: "soft" }, after));

const opened = (): string[] => (readAddress().query.get("open") ?? "").split(",").filter((id) => id !== "");

let isPrinting = false;

/** The address stores which sections are open; on paper, all are. */
export function fold(id: string, title: string, ...children: Child[]): HTMLDetailsElement {
  const box = element("details", { class: "fold", "data-fold": id, open: opened().includes(id) }, element("summary", {}, element("h2", { id }, title)), ...children);
  box.addEventListener("toggle", () => {
    // Printing opens everything, which is not the reader's choice.
    if (isPrinting) return;
    const others = opened().filter((one) => one !== id);
    remember({ open: (box.open ? [...others, id] : others).join(",") });
  });
  return box;
}

/** Must be called before charts add their print listeners. */
export function unfoldForPaper(): void {
  const closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    isPrinting = true;
    closed.push(...document.querySelectorAll<HTMLDetailsElement>("details.fold:not([open]), .trust details:not([open])"));
    for (const box of closed) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of closed.splice(0)) box.open = false;
    // Toggle events arrive after this handler.
    setTimeout(() => (isPrinting = false));
  });
}

/** Polls while the box is on the page and the page is visible. */
export function askWhileShown(box: HTMLElement, everyMs: number, ask: () => Promise<void>, tellFailure: () => void): void {
  let wasShown = false;
  const timer = setInterval(() => {
    wasShown ||= box.isConnected;
    if (wasShown && !box.isConnected) clearInterval(timer);
    else if (!document.hidden) void ask().catch(tellFailure);
  }, everyMs);
}
