// Which colour stands for which value of the second axis.

import { element } from "../../element";
import { lineStyleOf } from "../colours";
import { valuesOf } from "../pivot";
import type { StudyState } from "../state";

/** `null`: there is one line alone. */
export function chips(state: StudyState): HTMLElement | null {
  const values = valuesOf(state.axes, state.layout.y);
  if (state.layout.y === "") return null;
  const items = values.map((value, place) => element("span", { class: "key" }, swatchOf(place, state.isDark), value));
  return element("p", { class: "keys" }, element("span", { class: "soft" }, state.layout.y), ...items);
}

export function swatchOf(place: number, isDark: boolean): HTMLElement {
  const { color, dash } = lineStyleOf(place, isDark);
  const piece = element("span", { class: "swatch", "aria-hidden": "true" });
  const [on, off] = dash;
  piece.style.background = on === undefined || off === undefined
    ? color
    : `repeating-linear-gradient(90deg, ${color} 0 ${on}px, transparent ${on}px ${on + off}px)`;
  return piece;
}
