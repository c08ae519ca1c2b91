// Shows studies: a bar that stays, and below it the page that the address names.

import { Appearance } from "../appearance";
import { charts } from "../charts/figure";
import { element } from "../element";
import { linkTo, readAddress } from "./address";
import { comparePage } from "./pages/compare";
import { livePage } from "./pages/live";
import { studiesPage } from "./pages/studies";
import { studyPage } from "./pages/study";
import { trialPage } from "./pages/trial";
import type { Source } from "./source";

export function showStudies(source: Source): void {
  const appearance = new Appearance();
  const content = element("div", { id: "content" });
  document.getElementById("page")?.replaceChildren(bar(source, appearance), content);
  let turn = 0;
  const show = async (isFirst: boolean): Promise<void> => {
    turn += 1;
    const mine = turn;
    const children = await pageOf(source, appearance).catch((error: unknown) => [element("h1", { tabindex: -1 }, "This cannot be shown"), element("p", { class: "against", role: "alert" }, error instanceof Error ? error.message : String(error))]);
    // Somebody went on meanwhile.
    if (mine !== turn) return;
    for (const chart of charts.values()) chart.dispose();
    charts.clear();
    content.replaceChildren(...children);
    const title = content.querySelector("h1");
    document.title = `pgthaw: ${title?.textContent ?? "studies"}`;
    window.pgthawReport = { charts };
    // Who follows a link with a screen reader hears where it led.
    if (!isFirst) {
      scrollTo(0, 0);
      title?.focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", () => void show(false));
  void show(true);
}

async function pageOf(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const { path, query } = readAddress();
  const [kind, id, part, number, repeat] = path;
  appearance.forgetListeners();
  if (kind === "study" && id !== undefined) {
    return part === "trial" ? trialPage(source, appearance, id, [Number(number), Number(repeat)], query.get("with")) : studyPage(source, appearance, id);
  }
  if (kind === "compare" && source.isServed) return comparePage(source, appearance);
  if (kind === "live" && source.isServed) return livePage(source, appearance);
  const only = source.isServed ? null : await loneStudy(source);
  return only === null ? studiesPage(source) : studyPage(source, appearance, only);
}

/** A report of one study begins with it. */
async function loneStudy(source: Source): Promise<string | null> {
  const all = await source.studies();
  return all.length === 1 ? (all[0]?.id ?? null) : null;
}

function bar(source: Source, appearance: Appearance): HTMLElement {
  const button = element("button", { type: "button", class: "theme" });
  const name = (): void => {
    button.textContent = appearance.isDark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${appearance.isDark ? "light" : "dark"} theme`);
  };
  button.addEventListener("click", () => {
    appearance.toggleTheme();
    name();
  });
  name();
  return element(
    "nav",
    { class: "bar", "aria-label": "pgthaw" },
    element("a", { class: "brand", href: linkTo([]) }, "pgthaw"),
    element("a", { href: linkTo([]) }, source.isServed ? "studies" : "start"),
    source.isServed && element("a", { href: linkTo(["compare"]) }, "compare"),
    source.isServed && element("a", { href: linkTo(["live"]) }, "running now"),
    button,
  );
}
