// What stands above every page: where one can go, light or dark, and whether the study runs now.

import type { Appearance } from "./appearance";
import { element } from "./element";
import { count } from "./format";
import type { LiveTrial } from "../generated/record";

/** A page that stands alone leads to its own studies. */
export function navigation(appearance: Appearance, isServed: boolean): HTMLElement {
  const button = element("button", { type: "button", class: "theme", click: () => appearance.toggleTheme() });
  const name = (): void => {
    button.textContent = appearance.isDark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${appearance.isDark ? "light" : "dark"} theme`);
  };
  name();
  appearance.subscribe(name);
  const link = (text: string, place: string): HTMLElement => element("a", { href: `#/${place}` }, text);
  return element(
    "nav",
    { class: "bar", "aria-label": "pgthaw" },
    element("a", { class: "brand", href: "#/" }, "pgthaw"),
    link("studies", ""),
    ...(isServed ? [link("compare", "compare"), link("running now", "live")] : []),
    button,
  );
}

const EVERY_MS = 3000;

/** Says that a study runs now and how far it is, as long as it does. */
export function runningBanner(live: () => Promise<LiveTrial[]>, id: string): HTMLElement {
  const told = element("span", {});
  const banner = element("p", { class: "running", role: "status", hidden: true }, told, " ", element("a", { href: "#/live" }, "Watch it"));
  const update = async (): Promise<void> => {
    const trial = (await live()).find((one) => one.sweep_id === id);
    banner.hidden = trial === undefined;
    const text = trial === undefined ? "" : `It runs now: trial ${trial.position} of ${trial.trials}, ${trial.label}, repeat ${trial.repeat}${leftOf(trial)}.`;
    if (told.textContent !== text) told.textContent = text;
  };
  const ask = (): void => void update().catch(() => (banner.hidden = true));
  ask();
  let wasShown = false;
  const timer = setInterval(() => {
    wasShown ||= banner.isConnected;
    if (wasShown && !banner.isConnected) clearInterval(timer);
    else if (!document.hidden) ask();
  }, EVERY_MS);
  return banner;
}

/** `; about 4 min left` of the whole. */
export function leftOf(trial: LiveTrial): string {
  const minutes = Math.round((trial.left_seconds - (Date.now() - Date.parse(trial.began_at)) / 1000) / 60);
  return minutes < 1 ? "; about a minute left" : `; about ${count(minutes)} min left`;
}
