// Makes elements. Text always becomes a text node, so that no name in the data can be markup.

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  append(made, children);
  return made;
}

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(made, attributes);
  append(made, children);
  return made;
}

function setAttributes(target: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") target.addEventListener(name, value);
    else if (value === true) target.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) target.setAttribute(name, String(value));
  }
}

function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

/** A page's name that is longer takes many lines. */
const LONG_HEADING = 200;

/** A page's name. A long one is cut after some lines, until somebody wants to read all of it. */
export function heading(text: string): HTMLElement[] {
  const title = element("h1", { tabindex: -1 }, text);
  if (text.length <= LONG_HEADING) return [title];
  title.className = "cut";
  const unfold = element("button", { type: "button", class: "unfold", "aria-expanded": "false", click: () => {
    const isCut = title.classList.toggle("cut");
    unfold.setAttribute("aria-expanded", String(!isCut));
    unfold.textContent = isCut ? MORE : "show less of the name";
  } }, MORE);
  return [title, unfold];
}

const MORE = "show the whole name";

export interface Column {
  title: string;
  /** Numbers stand at the right, in figures of one width. */
  isNumber: boolean;
}

/** A table that scrolls inside itself; the first cell of a row is its header. */
export function table(caption: string, columns: Column[], rows: Child[][], className = ""): HTMLElement {
  const head = columns.map((column) =>
    element("th", { scope: "col", class: column.isNumber ? "number" : null }, column.title),
  );
  const body = rows.map((cells) =>
    element(
      "tr",
      {},
      ...cells.map((cell, index) => {
        const className = columns[index]?.isNumber ? "number" : null;
        return index === 0
          ? element("th", { scope: "row", class: className }, cell)
          : element("td", { class: className }, cell);
      }),
    ),
  );
  return element(
    "div",
    { class: `scroll ${className}`.trim(), tabindex: 0, role: "region", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body),
    ),
  );
}

/** Rows beyond which a table is folded: a page is to open at once. */
export const MANY_ROWS = 200;

/** Something long that is made when it is first looked at. */
export function folded(summary: string, make: () => Node): HTMLElement {
  const box = element("details", { class: "numbers" }, element("summary", {}, summary));
  box.addEventListener("toggle", () => box.open && box.childElementCount === 1 && box.append(make()));
  return box;
}

/** Facts under a title. */
export function card(title: string, entries: [string, string][]): HTMLElement {
  const list = entries.flatMap(([name, value]): Child[] => [element("dt", {}, name), element("dd", {}, value)]);
  return element("div", { class: "card" }, element("h3", {}, title), element("dl", {}, ...list));
}

/** Settings of a server, by name. */
export function settingsTable(settings: [string, string][]): HTMLElement {
  const code = (text: string): HTMLElement => element("code", {}, text);
  return table("Settings of the server", ["setting", "value"].map((title) => ({ title, isNumber: false })), settings.map(([name, value]) => [code(name), code(value)]), "pairs low");
}

/** A figure at the head of a page, with what is to be read beside it. */
export function figureOf(label: string, value: string, note: string | null): HTMLElement {
  return element("div", {}, element("dt", {}, label), element("dd", {}, value), note && element("dd", { class: "note" }, note));
}
