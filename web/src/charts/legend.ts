// Which colour stands for which value of the second axis.

import { element } from "../element";
import { seriesStyle } from "../palette";
import { swatch } from "../swatch";
import { valuesOf } from "../pivot";
import type { StudyState } from "../state";

/** `null`: there is one line alone. */
export function chips(state: StudyState): HTMLElement | null {
  const values = valuesOf(state.axes, state.layout.y);
  if (state.layout.y === "") return null;
  const items = values.map((value, place) => element("span", { class: "key" }, swatch(seriesStyle(place, state.isDark)), value));
  return element("p", { class: "keys" }, element("span", { class: "soft" }, state.layout.y), ...items);
}
