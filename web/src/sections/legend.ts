// One legend for all charts: each strategy can be shown or hidden, and stands out while it is pointed at.

import { element } from "../element";
import { instant } from "../format";
import { spreadOf } from "../metrics";
import type { WarmersState } from "../warmers_state";
import { swatch } from "../swatch";

export function legend(state: WarmersState): HTMLElement {
  const box = element("div", { class: "chips" }, ...state.strategies.map((strategy) => chip(state, strategy)));
  state.subscribe(() => update(state, box));
  const soonestPeer = state.strategies.find((strategy) => strategy !== "pgthaw" && strategy !== "nothing");
  const few = ["pgthaw", "nothing", ...(soonestPeer === undefined ? [] : [soonestPeer])];
  return element(
    "nav",
    { class: "legend", "aria-label": "Strategies in the charts" },
    box,
    element(
      "div",
      { class: "segments" },
      element("button", { type: "button", click: () => state.show(state.strategies) }, "all"),
      element("button", { type: "button", click: () => state.show(few) }, "the main three"),
    ),
  );
}

function chip(state: WarmersState, strategy: string): HTMLElement {
  const found = state.points.find(({ label }) => label === strategy);
  const warm = found === undefined ? null : (spreadOf(found, "warm_after_seconds")?.median ?? null);
  const time = warm === null ? `> ${state.longest} s` : instant(warm);
  return element(
    "button",
    {
      type: "button",
      class: "chip",
      "data-strategy": strategy,
      "aria-pressed": String(state.isVisible(strategy)),
      title: "Show or hide",
      click: () => state.toggleStrategy(strategy),
      mouseenter: () => state.isVisible(strategy) && state.setFocus(strategy),
      mouseleave: () => state.setFocus(null),
    },
    swatch(state.style(strategy)),
    element("span", {}, strategy),
    element("span", { class: "soft" }, time),
  );
}

/** Keeps the buttons, so that the keyboard's focus stays where it is. */
function update(state: WarmersState, box: HTMLElement): void {
  for (const button of box.querySelectorAll<HTMLElement>(".chip")) {
    const strategy = button.dataset["strategy"] ?? "";
    button.setAttribute("aria-pressed", String(state.isVisible(strategy)));
    button.firstElementChild?.replaceWith(swatch(state.style(strategy)));
  }
}
