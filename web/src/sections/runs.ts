// Which of the page's runs is shown, when it holds several.

import { element } from "../element";
import { unbroken } from "../format";
import type { RunData } from "../record";

/** A button for each run, with its answer; `null` for a single one. */
export function runs(all: RunData[], shown: number, show: (index: number) => void): HTMLElement | null {
  if (all.length < 2) return null;
  const buttons = all.map(({ run, headline }, index) =>
    element(
      "button",
      { type: "button", "aria-pressed": String(index === shown), click: () => show(index) },
      element("strong", {}, run.study.title ?? `run ${run.id}`),
      element("span", {}, unbroken(headline)),
    ),
  );
  return element("nav", { class: "runs", "aria-label": "Runs on this page" }, ...buttons);
}
