// Shows studies: a bar that stays, and below it the page that the address names.

import { Appearance } from "./appearance";
import { charts } from "./charts/figure";
import { element } from "./element";
import { navigation } from "./navigation";
import { readAddress } from "./address";
import { comparePage } from "./pages/compare";
import { livePage } from "./pages/live";
import { studiesPage } from "./pages/studies";
import { studyPage } from "./pages/study";
import { trialPage } from "./pages/trial";
import type { Source } from "./source";

export function showStudies(source: Source): void {
  const appearance = new Appearance();
  const content = element("div", { id: "content" });
  document.getElementById("page")?.replaceChildren(navigation(appearance, source.isServed), content);
  const forget = appearance.remember();
  let turn = 0;
  const show = async (isFirst: boolean): Promise<void> => {
    turn += 1;
    forget();
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
  if (kind === "study" && id !== undefined) {
    return part === "trial" ? trialPage(source, appearance, id, [Number(number), Number(repeat)], query.get("with")) : studyPage(source, appearance, id);
  }
  if (kind === "compare" && source.isServed) return comparePage(source, appearance);
  if (kind === "live" && source.isServed) return livePage(source, appearance);
  if (kind !== undefined) return [...missing(path), ...(await studiesPage(source, appearance)).slice(1)];
  const only = source.isServed ? null : await loneStudy(source);
  return only === null ? studiesPage(source, appearance) : studyPage(source, appearance, only);
}

/** A report of one study begins with it. */
async function loneStudy(source: Source): Promise<string | null> {
  const all = await source.studies();
  return all.length === 1 ? (all[0]?.id ?? null) : null;
}

const missing = (path: string[]): HTMLElement[] => [
  element("h1", { tabindex: -1 }, "Nothing is here"),
  element("p", { class: "against", role: "alert" }, `There is no page ${path.join("/")}. What there is stands below.`),
];
