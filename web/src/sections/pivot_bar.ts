// What is drawn, and which axis goes where: for all pictures of a study at once.

import { type Child, element } from "../element";
import { metricsOf } from "../metrics";
import { MOST_FACETS } from "../pivot";
import type { StudyState } from "../state";

export function pivotBar(state: StudyState): HTMLElement {
  const box = element("div", { class: "pivot", role: "group", "aria-label": "What is drawn" });
  const draw = (): void => {
    const focused = document.activeElement?.id ?? "";
    box.replaceChildren(...choices(state).filter((one): one is HTMLElement => one instanceof HTMLElement));
    if (focused.startsWith("pivot-")) document.getElementById(focused)?.focus();
  };
  state.subscribe(draw);
  draw();
  return box;
}

function choices(state: StudyState): Child[] {
  const { axes, layout } = state;
  const names = axes.map(({ name }): [string, string] => [name, name]);
  const none: [string, string] = ["", "none"];
  const small = axes.filter(({ values }) => values.length <= MOST_FACETS).map(({ name }): [string, string] => [name, name]);
  return [
    select("pivot-metric", "figure", metricsOf(state.study).map(({ id, label }) => [id, label]), state.metric.id, (id) => state.setMetric(id)),
    axes.length > 0 && select("pivot-x", "across", names, layout.x, (name) => state.setAxis("x", name)),
    axes.length > 1 && select("pivot-y", "down and colour", [none, ...names.filter(([name]) => name !== layout.x)], layout.y, (name) => state.setAxis("y", name)),
    axes.length > 2 && select("pivot-facet", "small multiples", [none, ...small.filter(([name]) => name !== layout.x && name !== layout.y)], layout.facet, (name) => state.setAxis("facet", name)),
    ...Object.entries(layout.fixed).map(([name, value]) => {
      const values = axes.find((axis) => axis.name === name)?.values ?? [];
      return select(`pivot-at-${name}`, name, values.map((one) => [one, one]), value, (chosen) => state.setFixed(name, chosen));
    }),
  ];
}

export function select(id: string, label: string, options: [value: string, label: string][], chosen: string, choose: (value: string) => void): HTMLElement {
  const box = element("select", { id, change: () => choose(box.value) }, ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  return element("label", { class: "choice" }, element("span", {}, label), box);
}
