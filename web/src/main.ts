import "./report.css";
import { readAddress } from "./address";
import { Appearance } from "./appearance";
import { charts } from "./charts/figure";
import { alarm, element, unfoldForPaper } from "./element";
import { parseShown } from "./format";
import { declareMetrics } from "./metrics";
import { comparePage } from "./pages/compare";
import { livePage } from "./pages/live";
import { studiesPage } from "./pages/studies";
import { studyPage } from "./pages/study";
import { trialPage } from "./pages/trial";
import { embedded, served, type Source } from "./source";
import type { PageData } from "../generated/record";

declare global {
  interface Window {
    /** For tests. */
    pgthawReport?: { charts: typeof charts };
  }
}

unfoldForPaper();
const page = parseShown(document.getElementById("pgthaw-data")?.textContent ?? "") as PageData;
declareMetrics(page.metrics);
if (page.kind === "studies") showStudies(embedded(page.studies));
else if (page.kind === "served") showStudies(served);
// For an unknown path the front page shows an error.
else location.replace(`/#${location.pathname}`);

function showStudies(source: Source): void {
  const appearance = new Appearance();
  const content = element("div", { id: "content" });
  let turn = 0;
  const show = async (isFirst: boolean): Promise<void> => {
    turn += 1;
    const mine = turn;
    // Stops redrawing earlier charts, which are no longer on the page.
    appearance.forget();
    document.getElementById("page")?.replaceChildren(navigation(appearance, source.isServed), content);
    const children = await pageOf(source, appearance).catch((error: unknown) => [element("h1", { tabindex: -1 }, "Cannot show this page"), alarm(error)]);
    // The user has opened another page meanwhile.
    if (mine !== turn) return;
    for (const chart of charts.values()) chart.dispose();
    charts.clear();
    content.replaceChildren(...children);
    const title = content.querySelector("h1");
    document.title = `pgthaw: ${title?.textContent ?? "studies"}`;
    window.pgthawReport = { charts };
    // Screen readers announce the new page.
    if (!isFirst) {
      scrollTo(0, 0);
      title?.focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", () => void show(false));
  void show(true);
}

function navigation(appearance: Appearance, isServed: boolean): HTMLElement {
  const button = element("button", { type: "button", class: "theme", click: () => appearance.toggleTheme() });
  const name = (): void => {
    const other = appearance.theme.isDark ? "Light" : "Dark";
    button.textContent = other;
    button.setAttribute("aria-label", `Switch to the ${other.toLowerCase()} theme`);
  };
  name();
  appearance.subscribe(name);
  const link = (text: string, place: string): HTMLElement => element("a", { href: `#/${place}` }, text);
  return element("nav", { class: "bar", "aria-label": "pgthaw" },
    element("a", { class: "brand", href: "#/" }, "pgthaw"), link("studies", ""), ...(isServed ? [link("compare", "compare"), link("running now", "live")] : []), button);
}

async function pageOf(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const { path, query } = readAddress();
  const [kind, id, part, number, repeat] = path;
  if (kind === "study" && id !== undefined) {
    return part === "trial" ? trialPage(source, appearance, id, [Number(number), Number(repeat)], query.get("with")) : studyPage(source, appearance, id);
  }
  if (kind === "compare" && source.isServed) return comparePage(source, appearance);
  if (kind === "live" && source.isServed) return livePage(source, appearance);
  if (kind !== undefined) {
    const missing = [element("h1", { tabindex: -1 }, "Page not found"), alarm(`There is no page ${path.join("/")}. The studies are listed below.`)];
    return [...missing, ...(await studiesPage(source, appearance)).slice(1)];
  }
  const all = source.isServed ? [] : await source.studies();
  return all.length === 1 && all[0] !== undefined ? studyPage(source, appearance, all[0].id) : studiesPage(source, appearance);
}
