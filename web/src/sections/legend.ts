// One legend for all charts: each strategy can be shown or hidden, and stands out while it is pointed at.

import { element } from "../element";
import { instant } from "../format";
import type { TournamentState } from "../tournament_state";
import { swatch } from "../swatch";

export function legend(state: TournamentState): HTMLElement {
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

function chip(state: TournamentState, strategy: string): HTMLElement {
  const found = state.data.summary.strategies.find((one) => one.strategy === strategy);
  const warm = found?.warm_after_seconds.median ?? null;
  const time = warm === null ? `> ${state.data.summary.trial_seconds} s` : instant(warm);
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
function update(state: TournamentState, box: HTMLElement): void {
  for (const button of box.querySelectorAll<HTMLElement>(".chip")) {
    const strategy = button.dataset["strategy"] ?? "";
    button.setAttribute("aria-pressed", String(state.isVisible(strategy)));
    button.firstElementChild?.replaceWith(swatch(state.style(strategy)));
  }
}
