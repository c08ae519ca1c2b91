// Parts of a page that are folded until somebody wants them. The address keeps which are open, and paper shows all.

import { type Child, element } from "./element";
import { readAddress, remember } from "./address";

const opened = (): string[] => (readAddress().query.get("open") ?? "").split(",").filter((id) => id !== "");

/** A section below its title, which unfolds it. */
export function fold(id: string, title: string, ...children: Child[]): HTMLDetailsElement {
  const box = element(
    "details",
    { class: "fold", "data-fold": id, open: opened().includes(id) },
    element("summary", {}, element("h2", { id }, title)),
    ...children,
  );
  box.addEventListener("toggle", () => {
    // Paper has everything open, which nobody chose.
    if (isPrinting) return;
    const others = opened().filter((one) => one !== id);
    remember({ open: (box.open ? [...others, id] : others).join(",") });
  });
  return box;
}

let isPrinting = false;

/** To be called before anything listens that draws what is seen. */
export function unfoldForPaper(): void {
  const closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    isPrinting = true;
    closed.push(...document.querySelectorAll<HTMLDetailsElement>("details.fold:not([open]), .trust details:not([open])"));
    for (const box of closed) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of closed.splice(0)) box.open = false;
    // The boxes tell of it a moment later.
    setTimeout(() => (isPrinting = false));
  });
}
